// Package openapi describes a node's actors over HTTP as an OpenAPI 3.1 document.
package openapi
