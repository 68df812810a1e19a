// Package informerprom is a Prometheus collector for informers, groups, sets of informers, queues, controllers, clients,
// electors and replicas.
//
//	metrics := informerprom.New(informerprom.Config{
//		Groups:      []func() []informer.InformerStatus{group.Status},
//		Controllers: []func() status.Controller{controller.Status},
//		Clients:     []func() status.Client{client.Status},
//	})
//	prometheus.MustRegister(metrics)
//
// A scrape calls the Status functions. Between scrapes, the collector does nothing. A series ends when its source does:
// when an informer leaves its group, a subscription is closed, or the function that [Collector.Add] returned is called.
//
// Where client-go or controller-runtime has a metric, this package uses its name, help and labels, so existing
// dashboards and alerts work. The metrics of reflectors have one label more, watch_namespace. The time that requests
// wait for the rate limit has one label less, verb. The histograms have other buckets.
//
// # Informers
//
// The metrics of informers have the labels name (Config.Name), group, version and resource:
//
//	informer_synced                   1 if the store has received the whole collection
//	informer_objects                  objects in the store
//	informer_missing_objects          objects that the server has and the store lacks, because they could not be decoded
//	informer_memory_bytes             an estimate of the memory that the store takes
//	informer_queued_items             changes that wait to enter the store
//	informer_blocked_reflectors       reflectors that wait because that queue is full
//	informer_store_resource_version   the 15 least significant digits of the resource version of the store
//
// The metrics of audits have the same labels; see informer.Informer.Audit. The first also has the label result, which
// is equal, different or failed:
//
//	informer_audits_total                       audits by result; a failed one could not compare
//	informer_audit_differences_total            objects that differed between the store and the server, in all audits
//	informer_audit_last_equal_timestamp_seconds the time of the last audit without a difference; no series before
//
// An informer has a reflector for each namespace of its configuration, or one for all namespaces. Its metrics also have
// the label watch_namespace, which is empty for all namespaces:
//
//	informer_reflector_state              the number of reflectors in the state that the label state names
//	informer_reflector_failures           consecutive failures, which determine the backoff
//	informer_watch_open                   1 if a watch is open
//	informer_no_watch_seconds             how long no watch has been open; 0 if one is open
//	informer_last_error_timestamp_seconds the time of the last failure; no series if there was none
//	informer_server_restores_total        how often the server went back in time, as after a restore from a backup
//	informer_decode_errors_total          objects and events that could not be decoded
//	informer_stale_objects                objects whose newest version could not be decoded: missing, or stored in an older version
//	informer_resource_version_age_seconds the time since the reflector received its resource version; no series before the first
//	informer_retry_seconds                the time until the next try after a failure; 0 if the reflector does not wait for it
//	informer_received_bytes_total         bytes of the bodies of lists and watches, without compression
//	informer_received_events_total        events of watches, also the initial events of streaming lists
//	informer_late_events_total            events older than the resource version before them, which were applied
//	informer_modified_objects_total       objects that the program has modified in the store, as far as that was found
//	informer_shared_keys                  keys that the server gives to several objects at once; the store has one object of each
//	informer_watch_cut_seconds            time after which something between client and server cuts watches; 0 if none is known
//	informer_lists_total                  lists, each of one or several requests, by the label reason
//	informer_watches_total                watches at a resource version, by the label reason
//	informer_list_objects                 objects read so far of the current list, or of the last one
//	informer_list_total_objects           objects that this list will have, or had; no series if that is not known
//	informer_list_received_bytes          bytes of the bodies received so far of this list, without compression
//	informer_list_left_seconds            estimate of the time until the end of the list under way; no series if that is not known
//	informer_list_forecast_bytes          memory that the whole collection will take; no series unless a first list is near a limit
//	informer_list_exceeds_memory          1 if the process is going to use more than 80% of its memory limit for this first list
//
// The label reason is one of status.Reason: absent, audit, behind, ended, expired, failed, first, polled, refused,
// restored, shard, unclear, updated or warm start.
//
// With Config.WarmStart of an informer, its reflectors also have these metrics:
//
//	informer_warm_start_loaded                  1 if the store began with the objects of a saved state
//	informer_warm_start_saves_total             saves of the state
//	informer_warm_start_save_failed             1 if the latest save failed
//	informer_warm_start_saved_timestamp_seconds the time of the last save; no series before
//	informer_warm_start_saved_bytes             the size of the last saved state
//	informer_warm_start_save_seconds            the time that the last save took
//
// These metrics have the labels of client-go, name and watch_namespace. Here name is Config.Name and the resource, such
// as "deployments.v1.apps":
//
//	reflector_lists_total             requests that list; a streaming list is also a watch
//	reflector_watches_total           requests that watch
//	reflector_last_resource_version   the 15 least significant digits of the resource version of the reflector
//
// The metrics of subscriptions have the labels of informers and handler, which is the name of the subscription:
//
//	informer_subscriptions            open subscriptions
//	informer_subscription_synced      1 if the handler has processed the whole initial list
//	informer_subscription_backlog     keys, or with DeliverEvery changes, that wait for the handler
//	informer_subscription_oldest_seconds how long the oldest change that waits for the handler has waited
//	informer_subscription_delay_seconds a histogram of the time from a change in the store to the call of the handler
//	informer_subscription_call_seconds a histogram of the time that calls of the handler took
//	informer_subscription_busy_seconds how long the current call of the handler has taken so far
//	informer_subscription_blocking    subscriptions for whose handler the informer waits
//
// Durable subscriptions also have the following ones. The last three have no series before the first save:
//
//	informer_durable_acknowledged     objects that the handler has acknowledged
//	informer_durable_unknown          acknowledged objects that the store lacks although they may exist
//	informer_durable_saves_total      saves of the state
//	informer_durable_save_failed      1 if the latest save failed
//	informer_durable_saved_timestamp_seconds the time of the last save
//	informer_durable_stored_bytes     the size of the state in the storage
//	informer_durable_save_seconds     the time that the last save took
//
// # Sets of informers
//
// The metrics of sets have the label set, which is the key of Config.Sets. Their number does not grow with that of the
// members:
//
//	informer_set_members          members in a state, with the label state: one of status.MemberState
//	informer_set_failing_members  members without a watch whose latest requests have failed, and those that have ended by themselves
//	informer_set_objects          objects in the stores of all members
//	informer_set_memory_bytes     an estimate of the memory that these stores take
//	informer_set_no_watch_seconds how long the member with the longest outage has had no open watch, without those whose resource is absent
//	informer_set_member_unready   1 for a member, with the label member, that fails or does not sync: the first 20 by name, failing ones before others
//
// # Queues
//
// The metrics of queues have the labels name and controller, which is empty for a queue without a Controller. The label
// priority of the depth is high, normal or low:
//
//	workqueue_depth                             ready keys
//	workqueue_adds_total                        how often a key became ready
//	workqueue_retries_total                     how often a key was added with a delay or rate-limited
//	workqueue_unfinished_work_seconds           the total time that the keys in work have been in work
//	workqueue_longest_running_processor_seconds the longest time that a key has been in work
//	workqueue_queue_duration_seconds            a histogram of the time from a key becoming ready to its work
//	workqueue_work_duration_seconds             a histogram of the time that keys were in work
//	informer_queue_oldest_ready_seconds         how long the oldest ready key that is not in work has been ready
//	informer_queue_delayed_keys                 keys whose delay has not ended
//	informer_queue_working_keys                 keys in work
//	informer_queue_awaited_keys                 keys that wait until they belong to this replica, or until their writes are in the stores
//	informer_queue_foreign_total                how often a key was dropped because it belongs to another replica
//	informer_queue_refused_total                how often a key was added to a draining or closed queue
//
// # Controllers
//
// The metrics of controllers have the label controller:
//
//	controller_runtime_reconcile_total                 reconciles, with the label result: success, requeue_after, requeue, error
//	controller_runtime_reconcile_errors_total          reconciles that returned an error or panicked
//	controller_runtime_terminal_reconcile_errors_total reconciles that returned a TerminalError
//	controller_runtime_reconcile_panics_total          reconciles that panicked
//	controller_runtime_reconcile_time_seconds          a histogram of the time that reconciles took
//	controller_runtime_max_concurrent_reconciles       the maximum number of concurrent reconciles
//	controller_runtime_active_workers                  reconciles under way
//	informer_controller_running                        1 if Run is under way
//	informer_controller_failing_keys                   keys whose latest reconcile failed
//	informer_controller_own_writes_waiting_keys        keys that wait until the stores contain their writes
//	informer_controller_own_writes_expired_total       how often a key was handed out at the deadline, before its writes
//	informer_controller_own_writes_skipped_total       events that own writes explain, and that reconcile nothing
//	informer_controller_own_writes_wait_seconds        a histogram of the time that keys waited; no series before
//	informer_controller_last_success_timestamp_seconds the time of the last reconcile without an error; no series before
//	informer_controller_last_error_timestamp_seconds   the time of the last reconcile that failed; no series before
//
// # Clients
//
// The metrics of clients have the label host, which is the host and port of the API server. The label code is "<error>"
// if there was no response:
//
//	rest_client_requests_total                requests, with the labels code and method
//	rest_client_request_duration_seconds      a histogram of the time until the header of the response, with the label verb
//	rest_client_rate_limiter_duration_seconds a histogram of the time that requests waited for the client's own rate limit
//
// The label verb is the HTTP method, as in client-go. A streaming list or a watch counts as a request when it begins.
//
// # Electors
//
// The metrics of electors have the label name, which is the name of the Lease without its namespace:
//
//	leader_election_master_status                1 while this replica leads
//	informer_leader_renewal_age_seconds          the time since the leader sent its last successful renewal; no series on other replicas
//	informer_leader_terms_total                  how often this replica took the lease
//	informer_leader_leases_lost_total            how often it lost the lease
//	informer_leader_last_error_timestamp_seconds the time of the last failure; no series if there was none
//
// # Replicas
//
// The metrics of replicas of package shard have the label shards, which is the namespace and the name of the group,
// such as "kube-system/sites":
//
//	informer_shard_state                        1 for the state that the label state names: Idle, Joining, Member or Leaving
//	informer_shard_replicas                     replicas that have a Lease in the group, as this one sees it
//	informer_shard_slots                        slots of the group
//	informer_shard_planned_slots                slots that this replica should have
//	informer_shard_held_slots                   slots whose objects the informers hold
//	informer_shard_claimed_slots                slots in the replica's Lease: owned, awaited, or being released
//	informer_shard_owned_slots                  slots whose keys this replica reconciles
//	informer_shard_yielded_slots                slots that it should have, but leaves to others because it cannot list their objects
//	informer_shard_overdue_calls                calls of Reconcile that have not returned, although their slots move or the lease was lost
//	informer_shard_gained_slots_total           slots that this replica came to own
//	informer_shard_released_slots_total         slots that it handed over
//	informer_shard_lost_slots_total             slots that it lost with its lease
//	informer_shard_leases_lost_total            how often it lost its lease
//	informer_shard_renewal_age_seconds          the time since it sent the last successful renewal; no series before
//	informer_shard_last_error_timestamp_seconds the time of the last failure; no series if there was none
//
// The sum of informer_shard_owned_slots over all replicas is informer_shard_slots, unless slots are between two
// replicas. It may seem larger for a moment, since replicas are not scraped at the same time.
//
// # Histograms
//
// Each histogram has 15 buckets. Their upper bounds are 1 µs, 4 µs, 16 µs, and so on up to 268 s. So a quantile of
// histogram_quantile may be wrong by a factor of up to four; sum divided by count is exact. The collector reads the
// histograms from the status, and keeps none itself. For other buckets, or for a histogram by priority, use
// QueueConfig.OnGet and QueueConfig.OnDone.
//
// The metric informer_processing_latency_seconds, the time that client-go takes to write an event into its store, is
// missing, because no status contains that time.
//
// # Equal labels
//
// Sources with equal labels share a series. Its value is their sum, also in histograms. For gauges of times and of
// consecutive failures, it is the largest value; for versions, for the times of the last save and of the last equal
// audit, and for metrics that are 0 or 1, the smallest. A counter of such a series falls when one of the sources ends,
// which rate() takes for a restart. Use Config.Name and the names of controllers, queues and subscriptions to keep
// sources apart.
//
// Labels contain names that the program gives, resources, and namespaces of the configuration, but never the name or
// namespace of an object. Status codes that are not in the HTTP standard count as the first of their class. So the
// number of series is bounded as long as those names are.
//
// # In a controller-runtime manager
//
// controller-runtime's registry already has metrics with these names, so the collector cannot be registered there.
// Register it in a registry of its own, and serve both with prometheus.Gatherers{metrics.Registry, registry}. Leave
// Config.Clients empty there: controller-runtime's own clients have a series of rest_client_requests_total with the
// same labels, and Gatherers refuses the second one. To have both, serve this collector on a page of its own.
//
// # Alerts and dashboard
//
// The files alerts.yaml and dashboard.json contain alert rules for Prometheus and a dashboard for Grafana.
package informerprom
