// Package status has the values that the nouns of package informer report about themselves: what a reflector, a
// subscription, a queue, a controller or a client is doing, and what it has counted. The status of an informer,
// informer.InformerStatus, consists of them.
//
// Methods named Status return them, such as informer.Queue.Status. A status is a copy that later events do not change.
// Other copies may share its maps and slices: do not change them. The zero value of each type is the status before
// anything has happened.
//
// The values can be marshalled to JSON, for a page or a log of your own. Enumerations become their texts, also as keys
// of maps. Durations are in nanoseconds, as always in package encoding/json. Errors are left out, since their texts may
// come from the server, a proxy or a function of the program: add them if the reader may see them. The keys of objects
// in Queue, Controller and AuditResult are not for everybody either. Package debugpage shows both only to authorized
// callers.
package status
