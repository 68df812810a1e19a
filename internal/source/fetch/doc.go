// Package fetch reads one collection of an API server by list and watch. A [Source] sends the requests, and passes the
// encoded objects to an [Intake], which knows their type. A [State] chooses the next request, and records why.
package fetch
