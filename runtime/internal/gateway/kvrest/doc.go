// Package kvrest has the shared parts of the interfaces of other products to an actor's key-value
// store, in JSON over HTTP: routes, calls of built-in methods, bodies, parameters and errors.
//
//  1. A request only calls built-in methods. Authorize is asked about each method before its first
//     call.
//  2. It is asked about the method of the route before anything else of the request is read.
//  3. An error has the form and the status of the product.
package kvrest
