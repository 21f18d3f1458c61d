// Package kvrest has what interfaces to the key-value store of an actor share that speak JSON over
// HTTP as another product does: routes, calls of built-in methods, bodies, parameters and errors.
//
//  1. A request does nothing but call built-in methods. Authorize is asked about each of them
//     before it is called the first time.
//  2. It is asked about the method of the route before anything else of the request is read.
//  3. An error has the form and the status of the product.
package kvrest
