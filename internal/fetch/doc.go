// Package fetch reads one collection of an API server by list and watch. A [Source] sends the requests, and gives the
// encoded objects that come to an [Intake], which knows their type. A [State] is what to ask for next, and why.
package fetch
