// Package fleet follows one kind of object in many clusters, as if they were one: one handler, one index and one queue
// for all, with the name of the cluster beside each object.
//
//	pods, err := fleet.New(fleet.Config[*corev1.Pod]{
//		Clusters: fleet.Folder(fleet.FolderConfig{Dir: "/etc/clusters"}),
//		Resource: informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
//	})
//	byImage := fleet.NewIndex(pods, func(cluster string, p *corev1.Pod) []string { return images(p) })
//	go pods.Run(ctx)
//	err = pods.WaitSynced(ctx)
//	for cluster, pod := range byImage.Lookup("nginx:1.29") { … }
//
// # Clusters
//
// A [Source] reports the clusters, and each change: [Map] has those that the program sets, [Folder] those of kubeconfig
// files, [Secrets] those of Secrets in a hub, and [Profiles] those of ClusterProfiles. Clusters come and go while the
// fleet runs. If the credentials, the certificate authority or the address of a cluster change, its watch resumes: it is
// not listed, and no handler is called.
//
// If the config of a cluster is broken, the fleet reports that, and goes on with its last good one. If a source cannot
// be read, all clusters stay.
//
// # Guarantees
//
//   - A cluster that hangs, refuses or is away delays no other. [Fleet.WaitSynced] and [Fleet.Status] name it.
//   - Handler calls for one cluster come one at a time, in order. Those for different clusters may be concurrent.
//   - A cluster that returns after a day resumes where it stopped, or is listed: handlers see what has changed.
//   - A cluster that is removed delivers a deletion with final=false for each object, or nothing: see Config.Removed.
//   - Informers of all clusters share equal parts of objects; see [informer.Parts].
//   - No error, log or status has a credential.
//
// # Trust
//
// A kubeconfig can name a program to run, and files to read and send to its server. Who may write a Secret of a hub
// should not be able to do that to the process. So Secrets refuses both, and Folder programs, unless an option allows
// them.
package fleet
