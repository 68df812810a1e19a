package informerprom

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metric is the definition of a metric.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType       // zero for a histogram
	labels []string                   // their names, at most maxLabels
	merge  func(a, b float64) float64 // the value of a series that two sources share; nil for a histogram
}

// maxLabels is the largest number of labels of a metric.
const maxLabels = 6

// The labels of the metrics.
var (
	ofInformer     = []string{"name", "group", "version", "resource"}
	ofReflector    = []string{"name", "group", "version", "resource", "watch_namespace"}
	ofState        = []string{"name", "group", "version", "resource", "watch_namespace", "state"}
	ofAudit        = []string{"name", "group", "version", "resource", "result"}
	ofReason       = []string{"name", "group", "version", "resource", "watch_namespace", "reason"}
	ofRequests     = []string{"name", "watch_namespace"}
	ofSubscription = []string{"name", "group", "version", "resource", "handler"}
	ofDepth        = []string{"name", "controller", "priority"}
	ofSet          = []string{"set"}
	ofSetState     = []string{"set", "state"}
	ofMember       = []string{"set", "member"}
	ofQueue        = []string{"name", "controller"}
	ofController   = []string{"controller"}
	ofResult       = []string{"controller", "result"}
	ofCode         = []string{"code", "method", "host"}
	ofVerb         = []string{"verb", "host"}
	ofHost         = []string{"host"}
	ofLease        = []string{"name"}
	ofShards       = []string{"shards"}
	ofShardsState  = []string{"shards", "state"}
)

// metrics are all metrics. A metric of client-go or controller-runtime keeps its help text: a page with both must have
// one help text for a name.
var metrics []*metric

// The metrics of informers.
var (
	informerSynced = gauge("informer_synced", "Whether the store has received the whole collection: 1 or 0.", least,
		ofInformer)
	informerObjects = gauge("informer_objects", "Number of objects in the store.", sum, ofInformer)
	informerMissing = gauge("informer_missing_objects",
		"Number of objects that the server has and the store lacks, because they could not be decoded.", sum, ofInformer)
	informerMemory  = gauge("informer_memory_bytes", "Estimate of the memory that the store takes.", sum, ofInformer)
	informerQueued  = gauge("informer_queued_items", "Number of items currently queued in the FIFO.", sum, ofInformer)
	informerBlocked = gauge("informer_blocked_reflectors",
		"Number of reflectors that wait because the queue of the informer is full.", sum, ofInformer)
	informerVersion = gauge("informer_store_resource_version",
		"The 15 least significant digits of the resource version of the store.", least, ofInformer)
)

// The metrics of sets of informers.
var (
	setMembers = gauge("informer_set_members", "Number of members in a state.", sum, ofSetState)
	setFailing = gauge("informer_set_failing_members",
		"Number of members without a watch whose latest requests have failed, and of those that have ended by themselves.",
		sum, ofSet)
	setObjects = gauge("informer_set_objects", "Number of objects in the stores of all members.", sum, ofSet)
	setMemory  = gauge("informer_set_memory_bytes", "Estimate of the memory that the stores of all members take.", sum, ofSet)
	setNoWatch = gauge("informer_set_no_watch_seconds",
		"How long the member with the longest outage has had no open watch, without those whose resource is absent.", most,
		ofSet)
	setUnready = gauge("informer_set_member_unready",
		"1 for a member that fails or does not sync: the first 20 by name have a series, failing ones before others.", most,
		ofMember)
)

// The metrics of audits.
var (
	audits = counter("informer_audits_total",
		"Audits, which compare the store with the server, by result: equal, different or failed.", ofAudit)
	auditDifferences = counter("informer_audit_differences_total",
		"Objects that differed between the store and the server, in all audits.", ofInformer)
	auditEqual = gauge("informer_audit_last_equal_timestamp_seconds",
		"Time of the last audit without a difference since the Unix epoch.", least, ofInformer)
)

// The metrics of reflectors.
var (
	reflectorState    = gauge("informer_reflector_state", "Number of reflectors in a state.", sum, ofState)
	reflectorFailures = gauge("informer_reflector_failures",
		"Number of consecutive failures, which determines the backoff.", most, ofReflector)
	reflectorWatchOpen = gauge("informer_watch_open", "Whether a watch is open: 1 or 0.", least, ofReflector)
	reflectorNoWatch   = gauge("informer_no_watch_seconds",
		"How long no watch has been open. 0 if one is open.", most, ofReflector)
	reflectorLastError = gauge("informer_last_error_timestamp_seconds",
		"Time of the last failure since the Unix epoch.", most, ofReflector)
	reflectorRestored = counter("informer_server_restores_total",
		"How often the server went back in time, as after a restore from a backup.", ofReflector)
	reflectorDecodeErrors = counter("informer_decode_errors_total", "Objects and events that could not be decoded.",
		ofReflector)
	reflectorStale = gauge("informer_stale_objects", "Number of objects whose newest version could not be decoded.",
		sum, ofReflector)
	reflectorVersionAge = gauge("informer_resource_version_age_seconds",
		"Time since the reflector received its resource version.", most, ofReflector)
	reflectorRetry = gauge("informer_retry_seconds",
		"Time until the next try after a failure. 0 if the reflector does not wait for it.", most, ofReflector)
	reflectorBytes = counter("informer_received_bytes_total",
		"Bytes of the bodies of lists and watches, without compression.", ofReflector)
	reflectorEvents = counter("informer_received_events_total",
		"Events of watches, also the initial events of streaming lists.", ofReflector)
	reflectorLate = counter("informer_late_events_total",
		"Events older than the resource version before them, which were applied.", ofReflector)
	reflectorSharedKeys = gauge("informer_shared_keys",
		"Number of keys that the server gives to several objects at once. The store has one object of each.", sum, ofReflector)
	reflectorModified = counter("informer_modified_objects_total",
		"Objects that the program has modified in the store, as far as that was found.", ofReflector)
	reflectorCutAfter = gauge("informer_watch_cut_seconds",
		"Time after which something between client and server cuts watches. 0 if none is known.", most, ofReflector)
	reflectorListsBy = counter("informer_lists_total",
		"Lists that the reflector began, each of one or several requests, by reason.", ofReason)
	reflectorWatchesBy = counter("informer_watches_total",
		"Watches that the reflector requested at a resource version, by reason.", ofReason)
	reflectorRead = gauge("informer_list_objects",
		"Number of objects read so far of the current list, or of the last one.", sum, ofReflector)
	reflectorTotal = gauge("informer_list_total_objects",
		"Number of objects that the current list will have, or that the last one had.", sum, ofReflector)
	reflectorListBytes = gauge("informer_list_received_bytes",
		"Bytes of the bodies received so far of the current list, or of the last one, without compression.", sum, ofReflector)
	reflectorLeft = gauge("informer_list_left_seconds",
		"Estimate of the time until the end of the list under way, if the server says how many objects there are.", most, ofReflector)
	reflectorForecast = gauge("informer_list_forecast_bytes",
		"Memory that the whole collection of the first list under way will take, as far as is known.", sum, ofReflector)
	reflectorExceeds = gauge("informer_list_exceeds_memory",
		"Whether the process is going to use more than four fifths of its memory limit for the first list under way: 1 or 0.",
		most, ofReflector)
	reflectorLists = counter("reflector_lists_total", "Total number of API lists done by the reflectors",
		ofRequests)
	reflectorWatches = counter("reflector_watches_total", "Total number of API watches done by the reflectors",
		ofRequests)
	reflectorVersion = gauge("reflector_last_resource_version", "Last resource version seen for the reflectors",
		least, ofRequests)
)

// The metrics of saved states.
var (
	warmStartLoaded = gauge("informer_warm_start_loaded",
		"Whether the store began with the objects of a saved state: 1 or 0.", least, ofReflector)
	warmStartSaves  = counter("informer_warm_start_saves_total", "Saves of the state.", ofReflector)
	warmStartFailed = gauge("informer_warm_start_save_failed", "Whether the latest save failed: 1 or 0.", most,
		ofReflector)
	warmStartTime = gauge("informer_warm_start_saved_timestamp_seconds", "Time of the last save since the Unix epoch.",
		least, ofReflector)
	warmStartBytes = gauge("informer_warm_start_saved_bytes", "Size of the last saved state.", sum, ofReflector)
	warmStartTook  = gauge("informer_warm_start_save_seconds", "Time that the last save took.", most, ofReflector)
)

// The metrics of subscriptions.
var (
	subscriptions      = gauge("informer_subscriptions", "Number of open subscriptions.", sum, ofSubscription)
	subscriptionSynced = gauge("informer_subscription_synced",
		"Whether the handler has processed the whole initial list: 1 or 0.", least, ofSubscription)
	subscriptionBacklog = gauge("informer_subscription_backlog", "Number of keys or changes that wait for the handler.",
		sum, ofSubscription)
	subscriptionOldest = gauge("informer_subscription_oldest_seconds",
		"How long the oldest change that waits for the handler has waited.", most, ofSubscription)
	subscriptionDelays = histogram("informer_subscription_delay_seconds",
		"Time from a change in the store to the call of the handler.", ofSubscription)
	subscriptionCalls = histogram("informer_subscription_call_seconds", "Time that calls of the handler took.",
		ofSubscription)
	subscriptionBusy = gauge("informer_subscription_busy_seconds",
		"How long the current call of the handler has taken so far.", most, ofSubscription)
	subscriptionBlocking = gauge("informer_subscription_blocking",
		"Number of subscriptions for whose handler the informer waits.", sum, ofSubscription)
)

// The metrics of durable subscriptions.
var (
	durableAcknowledged = gauge("informer_durable_acknowledged", "Number of objects that the handler has acknowledged.",
		sum, ofSubscription)
	durableUnknown = gauge("informer_durable_unknown",
		"Number of acknowledged objects that the store lacks although they may exist.", sum, ofSubscription)
	durableSaves  = counter("informer_durable_saves_total", "Saves of the state.", ofSubscription)
	durableFailed = gauge("informer_durable_save_failed", "Whether the latest save failed: 1 or 0.", most, ofSubscription)
	durableTime   = gauge("informer_durable_saved_timestamp_seconds", "Time of the last save since the Unix epoch.",
		least, ofSubscription)
	durableBytes = gauge("informer_durable_stored_bytes", "Size of the state in the storage.", sum, ofSubscription)
	durableTook  = gauge("informer_durable_save_seconds", "Time that the last save took.", most, ofSubscription)
)

// The metrics of queues.
var (
	queueDepth   = gauge("workqueue_depth", "Current depth of workqueue by workqueue and priority", sum, ofDepth)
	queueAdds    = counter("workqueue_adds_total", "Total number of adds handled by workqueue", ofQueue)
	queueRetries = counter("workqueue_retries_total",
		"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)", ofQueue)
	queueUnfinished = gauge("workqueue_unfinished_work_seconds",
		"How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.", sum, ofQueue)
	queueLongest = gauge("workqueue_longest_running_processor_seconds",
		"How many seconds has the longest running processor for workqueue been running.", most, ofQueue)
	queueWaits = histogram("workqueue_queue_duration_seconds",
		"How long in seconds an item stays in workqueue before being requested", ofQueue)
	queueWorks = histogram("workqueue_work_duration_seconds",
		"How long in seconds processing an item from workqueue takes.", ofQueue)
	queueOldest = gauge("informer_queue_oldest_ready_seconds",
		"How long the oldest ready key that is not in work has been ready.", most, ofQueue)
	queueDelayed = gauge("informer_queue_delayed_keys", "Number of keys whose delay has not ended.", sum, ofQueue)
	queueWorking = gauge("informer_queue_working_keys", "Number of keys in work.", sum, ofQueue)
	queueAwaited = gauge("informer_queue_awaited_keys", "Number of keys that wait for their owner or their writes.",
		sum, ofQueue)
	queueForeign = counter("informer_queue_foreign_total",
		"How often a key was dropped because it belongs to another replica.", ofQueue)
	queueRefused = counter("informer_queue_refused_total", "How often a key was added to a draining or closed queue.",
		ofQueue)
)

// The metrics of controllers.
var (
	reconciles = counter("controller_runtime_reconcile_total", "Total number of reconciliations per controller",
		ofResult)
	reconcileErrors = counter("controller_runtime_reconcile_errors_total",
		"Total number of reconciliation errors per controller", ofController)
	reconcileTerminal = counter("controller_runtime_terminal_reconcile_errors_total",
		"Total number of terminal reconciliation errors per controller", ofController)
	reconcilePanics = counter("controller_runtime_reconcile_panics_total",
		"Total number of reconciliation panics per controller", ofController)
	reconcileTimes = histogram("controller_runtime_reconcile_time_seconds",
		"Length of time per reconciliation per controller", ofController)
	controllerWorkers = gauge("controller_runtime_max_concurrent_reconciles",
		"Maximum number of concurrent reconciles per controller", sum, ofController)
	controllerActive = gauge("controller_runtime_active_workers", "Number of currently used workers per controller", sum,
		ofController)
	controllerRunning = gauge("informer_controller_running", "Whether the controller runs: 1 or 0.", least, ofController)
	controllerFailing = gauge("informer_controller_failing_keys", "Number of keys whose latest reconcile failed.", sum,
		ofController)
	controllerAwaits = gauge("informer_controller_own_writes_waiting_keys",
		"Number of keys that wait until the stores contain their writes.", sum, ofController)
	controllerExpired = counter("informer_controller_own_writes_expired_total",
		"How often a key was handed out at the deadline, before the stores contained its writes.", ofController)
	controllerSkipped = counter("informer_controller_own_writes_skipped_total",
		"Events that reconciled nothing, since writes of the controller explain them.", ofController)
	controllerAwaited = histogram("informer_controller_own_writes_wait_seconds",
		"How long keys have waited until the stores contained their writes.", ofController)
	controllerSuccess = gauge("informer_controller_last_success_timestamp_seconds",
		"Time of the last reconcile that returned no error since the Unix epoch.", most, ofController)
	controllerError = gauge("informer_controller_last_error_timestamp_seconds",
		"Time of the last reconcile that failed since the Unix epoch.", most, ofController)
)

// The metrics of electors.
var (
	leaderStatus = gauge("leader_election_master_status",
		"Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.", most, ofLease)
	leaderRenewed = gauge("informer_leader_renewal_age_seconds",
		"Time since the leader sent its last successful renewal.", most, ofLease)
	leaderTerms     = counter("informer_leader_terms_total", "How often the replica took the lease.", ofLease)
	leaderLost      = counter("informer_leader_leases_lost_total", "How often the replica lost the lease.", ofLease)
	leaderLastError = gauge("informer_leader_last_error_timestamp_seconds",
		"Time of the last request for the lease that failed since the Unix epoch.", most, ofLease)
)

// The metrics of clients.
var (
	clientRequests = counter("rest_client_requests_total",
		"Number of HTTP requests, partitioned by status code, method, and host.", ofCode)
	clientLatencies = histogram("rest_client_request_duration_seconds",
		"Request latency in seconds. Broken down by verb and host.", ofVerb)
	clientThrottled = histogram("rest_client_rate_limiter_duration_seconds",
		"Client side rate limiter latency in seconds. Broken down by verb, and host.", ofHost)
)

// The metrics of replicas that share objects.
var (
	shardState    = gauge("informer_shard_state", "Number of replicas in a state.", sum, ofShardsState)
	shardReplicas = gauge("informer_shard_replicas", "Number of replicas that have a Lease in the group.", least,
		ofShards)
	shardSlots   = gauge("informer_shard_slots", "Number of slots of the group.", most, ofShards)
	shardPlanned = gauge("informer_shard_planned_slots", "Number of slots that the replica should have.", sum, ofShards)
	shardHeld    = gauge("informer_shard_held_slots", "Number of slots whose objects the informers hold.", sum,
		ofShards)
	shardClaimed = gauge("informer_shard_claimed_slots", "Number of slots in the replica's Lease.", sum, ofShards)
	shardOwned   = gauge("informer_shard_owned_slots", "Number of slots whose keys the replica reconciles.", sum,
		ofShards)
	shardYielded = gauge("informer_shard_yielded_slots",
		"Number of slots that the replica leaves to others, because it cannot list their objects.", sum, ofShards)
	shardOverdue = gauge("informer_shard_overdue_calls",
		"Number of calls of Reconcile that have not returned although their contexts have ended.", sum, ofShards)
	shardGained     = counter("informer_shard_gained_slots_total", "Slots that the replica came to own.", ofShards)
	shardReleased   = counter("informer_shard_released_slots_total", "Slots that the replica handed over.", ofShards)
	shardLost       = counter("informer_shard_lost_slots_total", "Slots that the replica lost with its lease.", ofShards)
	shardLeasesLost = counter("informer_shard_leases_lost_total", "How often the replica lost its lease.", ofShards)
	shardRenewed    = gauge("informer_shard_renewal_age_seconds",
		"Time since the last successful renewal of the lease was sent.", most, ofShards)
	shardLastError = gauge("informer_shard_last_error_timestamp_seconds",
		"Time of the last failure since the Unix epoch.", most, ofShards)
)

func counter(name, help string, labels []string) *metric {
	return newMetric(prometheus.CounterValue, name, help, sum, labels)
}

func gauge(name, help string, merge func(a, b float64) float64, labels []string) *metric {
	return newMetric(prometheus.GaugeValue, name, help, merge, labels)
}

// histogram defines a metric of a [status.Durations]. The value of a series that two sources share is their sum.
func histogram(name, help string, labels []string) *metric {
	return newMetric(0, name, help, nil, labels)
}

func newMetric(kind prometheus.ValueType, name, help string, merge func(a, b float64) float64,
	labels []string) *metric {
	m := &metric{desc: prometheus.NewDesc(name, help, labels, nil), kind: kind, labels: labels, merge: merge}
	metrics = append(metrics, m)
	return m
}

// pairs returns the labels of a series, in the order of their names. values are in the order of m.labels.
func (m *metric) pairs(values []string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, len(m.labels))
	for i, name := range m.labels {
		value := values[i]
		pairs[i] = &dto.LabelPair{Name: &name, Value: &value}
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return pairs
}

func sum(a, b float64) float64   { return a + b }
func least(a, b float64) float64 { return min(a, b) }
func most(a, b float64) float64  { return max(a, b) }
