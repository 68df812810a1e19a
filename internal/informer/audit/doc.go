// Package audit compares a store with the server's collection at the same resource version.
//
// A store that follows a watch equals the server as long as both agree on the past. They disagree after a restore of
// the server from a backup that other writes have moved past the store's version, after a lost event, and after any
// defect. Nothing in the watch shows that. A [Comparison] does: it takes the identity and version of each object that
// the server has, in any order, and looks each up in the store's [View] of exactly that version.
//
// An [Auditor] does that for a store with its sources, when it is asked, and when its schedule says so.
package audit
