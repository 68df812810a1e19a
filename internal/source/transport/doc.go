// Package transport exchanges HTTP requests and responses with an API server: it limits the time and the size of each
// response, turns a failed response into the error that client-go returns, and counts the requests. TLS and
// authentication are those of client-go's package rest.
package transport
