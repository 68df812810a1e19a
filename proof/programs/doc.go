// Command programs runs programs that others wrote, with the informers of client-go and those of this project, against
// a real kube-apiserver and etcd:
//
//	go run ./programs script
//	go run ./programs measure -objects 30000 kube-controller-manager kube-scheduler
//
// It fetches the sources of a program from the module proxy, copies them to a temporary folder, and changes only the
// file that makes a factory of informers: its import, and a transform that only drops managedFields. It adds the pages
// of net/http/pprof to each program. The project keeps nothing of these sources. The kinds of informers are:
//
//	client-go        those of k8s.io/client-go/informers
//	clientgo         those of clientgo/informers with DropManagedFields: all these programs drop managedFields
//	shared, Compact  the same with that layout
//
// kube-scheduler drops managedFields of pods only. With client-go it drops those of other objects here too, so that each
// kind keeps the same.
//
// script runs kube-controller-manager and kube-scheduler while it creates, changes and deletes objects. A step passes
// if the cluster is in the right state within a minute. It does what a kubelet would do to pods. The command prints a
// table with the seconds of each step, and ends with status 1 if a step fails only with our informers.
//
// measure starts each program with an empty cluster, then with -objects pods, as often as -rounds says, with one kind
// of informers after the other. It prints the least of all rounds:
//
//	synced          from the start until all informers have synced. For kube-controller-manager, that is when all its
//	                controllers have logged so, for kube-scheduler when /readyz says so. descheduler has then
//	                also done its work once.
//	processor       the processor time used by then
//	idle processor  the processor time used from then on, for -idle
//	empty           the resident memory with an empty cluster, after -idle, a garbage collection and 5 s
//	resident        the same with the pods
//	peak            the largest resident memory before that garbage collection
//	caches          resident without empty
//	ratio           to client-go's
//	heap of caches  what the live heap is larger than with an empty cluster
//
// kube-controller-manager's informers of metadata and kube-scheduler's dynamic informers stay client-go's: without
// custom resources, they have no objects. All pods have nodes that are ready, and no owners, so that controllers have
// nothing to do; their number must be the same at the end.
//
// -bin keeps the compiled programs for later runs, -keep the logs and heap profiles. The command needs the go command
// and the network, and compiles kube-apiserver and etcd from the module e2e at first. proof/results has the tables.
package main
