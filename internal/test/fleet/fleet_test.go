package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// digest returns a digest of the protobuf encodings of pods. (The JSON encodings change with Go's encoder.)
func digest(t *testing.T, pods iter.Seq[*corev1.Pod]) string {
	t.Helper()
	h := sha256.New()
	for pod := range pods {
		b, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func TestSameSeedGivesSameBytes(t *testing.T) {
	// Only recorded digests can show that other machines get the same pods. Update the values when you change the
	// generator; measurements from before and after are then not comparable.
	for _, test := range []struct {
		config       Config
		pods, stream string
	}{
		{Config{}, "e719bf2966506345", "02bbd4f9cd963ed4"},
		{Config{Seed: 42, Pods: 100, Namespaces: 1, Nodes: 7}, "ca1b0e2c96d6c991", "c4eb212b609cea42"},
	} {
		t.Run(fmt.Sprintf("%+v", test.config), func(t *testing.T) {
			// An unusual time zone: the encodings must not depend on it.
			local := time.Local
			time.Local = time.FixedZone("test", 12345)
			defer func() { time.Local = local }()
			f := New(test.config)
			if got := digest(t, f.All()); got != test.pods {
				t.Errorf("pods have digest %s, want %s", got, test.pods)
			}
			if got := digest(t, objects(New(test.config).Changes(7), 2000)); got != test.stream {
				t.Errorf("changes have digest %s, want %s", got, test.stream)
			}
		})
	}
}

func TestPodDoesNotDependOnOthers(t *testing.T) {
	f := New(Config{Pods: 500})
	i := 0
	for pod := range f.All() {
		if i%37 == 0 {
			if diff := cmp.Diff(New(Config{Pods: 500}).Pod(i), pod); diff != "" {
				t.Fatalf("pod %d, built alone (-) and after others (+):\n%s", i, diff)
			}
		}
		i++
	}
	if i != f.Len() {
		t.Errorf("All yields %d pods, Len is %d", i, f.Len())
	}
}

func TestPodIsOwnedByCaller(t *testing.T) {
	f := New(Config{})
	for _, i := range []int{0, 500, 999} {
		want := f.Pod(i).DeepCopy()
		pod := f.Pod(i)
		for key := range pod.Labels {
			pod.Labels[key] = "changed"
		}
		for c := range pod.Spec.Containers {
			pod.Spec.Containers[c].Image = "changed"
			for a := range pod.Spec.Containers[c].Args {
				pod.Spec.Containers[c].Args[a] = "changed"
			}
		}
		if diff := cmp.Diff(want, f.Pod(i)); diff != "" {
			t.Errorf("pod %d changed together with another one:\n%s", i, diff)
		}
	}
}

func TestSeedsGiveDifferentFleets(t *testing.T) {
	a, b := New(Config{Seed: 1, Pods: 50}), New(Config{Seed: 2, Pods: 50})
	for i := range 50 {
		a, b := a.Pod(i), b.Pod(i)
		if a.UID == b.UID || a.Name == b.Name || a.Status.PodIP != "" && a.Status.PodIP == b.Status.PodIP {
			t.Errorf("pods %d of seeds 1 and 2 share UID, name or IP: %s, %s", i, a.Name, b.Name)
		}
	}
}

// unique records the pod in which each value was seen.
type unique map[string]string

func (u unique) add(t *testing.T, what, value, pod string) {
	t.Helper()
	if other, ok := u[what+value]; ok {
		t.Errorf("%s and %s have the same %s %s", other, pod, what, value)
	}
	u[what+value] = pod
}

// addPod adds the values that no two pods may share.
func (u unique) addPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	name := pod.Namespace + "/" + pod.Name
	u.add(t, "key", name, name)
	u.add(t, "uid", string(pod.UID), name)
	u.add(t, "resourceVersion", pod.ResourceVersion, name)
	if pod.Status.PodIP != "" {
		u.add(t, "podIP", pod.Status.PodIP, name)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range statuses {
			if c.ContainerID != "" {
				u.add(t, "containerID", c.ContainerID, name)
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, "kube-api-access-") {
			u.add(t, "volume", v.Name, name)
		}
	}
}

func TestPodsShareNoIdentity(t *testing.T) {
	f := New(Config{Pods: 5000})
	seen := unique{}
	lastKey, lastRV := "", ""
	for pod := range f.All() {
		seen.addPod(t, pod)
		if key := pod.Namespace + "/" + pod.Name; key <= lastKey {
			t.Errorf("%s comes after %s", key, lastKey)
		} else {
			lastKey = key
		}
		// All of them have the same number of digits.
		if pod.ResourceVersion <= lastRV || pod.ResourceVersion >= f.ResourceVersion() {
			t.Errorf("resourceVersion %s comes after %s, and the list's is %s", pod.ResourceVersion, lastRV, f.ResourceVersion())
		}
		lastRV = pod.ResourceVersion
	}
	nodes := unique{}
	for i := range f.config.Nodes {
		name, ip := f.node(i)
		nodes.add(t, "name", name, name)
		nodes.add(t, "ip", ip, name)
	}
}

func TestAverageSize(t *testing.T) {
	for seed := range uint64(3) {
		f := New(Config{Seed: seed, Pods: 5000})
		var n, asJSON, asProtobuf, managed int
		for i := 0; i < f.Len(); i += 3 { // a third of them is enough, and faster
			n++
			pod := f.Pod(i)
			b, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			asJSON += len(b)
			asProtobuf += pod.Size()
			for _, entry := range pod.ManagedFields {
				managed += len(rawOf(t, entry))
			}
		}
		t.Logf("seed %d: %d workloads; a pod has %d B of JSON, %d B of protobuf, %d B of FieldsV1", seed, f.Workloads(), asJSON/n, asProtobuf/n, managed/n)
		for _, c := range []struct {
			what      string
			got, want int
		}{
			{"JSON", asJSON / n, 6600},
			{"protobuf", asProtobuf / n, 4300},
			{"replicas, in hundredths,", f.Len() * 100 / f.Workloads(), 1200},
		} {
			tolerance := c.want / 10
			if strings.HasPrefix(c.what, "replicas") {
				tolerance = c.want / 5 // one workload with hundreds of pods changes the mean a lot
			}
			if c.got < c.want-tolerance || c.got > c.want+tolerance {
				t.Errorf("seed %d: average %s is %d, want %d", seed, c.what, c.got, c.want)
			}
		}
	}
}

// TestShape looks for all features of pods in real clusters, so that no change of the weights loses one.
func TestShape(t *testing.T) {
	f := New(Config{Pods: 5000})
	counts := map[string]int{}
	namespaces, nodes := map[string]int{}, map[string]int{}
	for pod := range f.All() {
		count := func(holds bool, what string) {
			if holds {
				counts[what]++
			}
		}
		spec, status := &pod.Spec, &pod.Status
		namespaces[pod.Namespace]++
		counts[string(status.Phase)]++
		counts[string(status.QOSClass)]++
		counts[pod.OwnerReferences[0].Kind]++
		counts[fmt.Sprintf("%d containers", len(spec.Containers))]++
		count(len(spec.InitContainers) > 0, "init containers")
		count(spec.Affinity != nil, "affinity")
		count(spec.TopologySpreadConstraints != nil, "topology spread")
		count(spec.NodeSelector != nil, "node selector")
		count(spec.ImagePullSecrets != nil, "image pull secrets")
		count(spec.SecurityContext.RunAsUser != nil, "security context")
		for _, v := range spec.Volumes {
			count(v.ConfigMap != nil, "configMap volume")
			count(v.Secret != nil, "secret volume")
			count(v.EmptyDir != nil, "emptyDir volume")
			count(v.Projected != nil, "projected volume")
			count(v.PersistentVolumeClaim != nil, "claim volume")
		}
		for _, c := range spec.Containers {
			mount := c.VolumeMounts[len(c.VolumeMounts)-1]
			if !strings.HasPrefix(mount.Name, "kube-api-access-") {
				t.Errorf("%s/%s: container %s does not mount kube-api-access, but %s", pod.Namespace, pod.Name, c.Name, mount.Name)
			}
			count(c.EnvFrom != nil, "envFrom")
			count(c.ReadinessProbe != nil, "readiness probe")
			count(c.LivenessProbe != nil, "liveness probe")
			count(c.SecurityContext != nil, "container security context")
			for _, e := range c.Env {
				count(e.Value != "", "literal env")
				count(e.ValueFrom != nil && e.ValueFrom.FieldRef != nil, "field env")
				count(e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil, "secret env")
			}
		}
		for _, key := range []string{"prometheus.io/scrape", "checksum/config", "sidecar.istio.io/status"} {
			_, ok := pod.Annotations[key]
			count(ok, key)
		}
		for _, key := range []string{"app.kubernetes.io/name", "pod-template-hash", "team", "tier"} {
			_, ok := pod.Labels[key]
			count(ok, key)
		}
		for _, entry := range pod.ManagedFields {
			counts["managed by "+entry.Manager]++
			if !json.Valid(rawOf(t, entry)) {
				t.Errorf("%s/%s: fieldsV1 of %s is not JSON: %s", pod.Namespace, pod.Name, entry.Manager, entry.FieldsV1)
			}
		}
		count(len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].RestartCount > 0, "restarts")
		if spec.NodeName != "" {
			nodes[spec.NodeName]++
		}
		if status.Phase == corev1.PodRunning && (spec.NodeName == "" || status.HostIP == "" || status.PodIP == "" || len(status.Conditions) != 5) {
			t.Errorf("%s/%s is running, but has node %q, IPs %q %q, %d conditions", pod.Namespace, pod.Name, spec.NodeName, status.HostIP, status.PodIP, len(status.Conditions))
		}
	}
	t.Log(counts)
	for what, least := range map[string]int{
		"Running": 4300, "Pending": 20, "Succeeded": 20, "Failed": 15, "Burstable": 1500, "Guaranteed": 100, "BestEffort": 100,
		"ReplicaSet": 3000, "StatefulSet": 50, "DaemonSet": 500, "Job": 20,
		"1 containers": 2500, "2 containers": 100, "3 containers": 20, "4 containers": 1,
		"init containers": 100, "affinity": 500, "topology spread": 100, "node selector": 100, "image pull secrets": 500, "security context": 300,
		"configMap volume": 300, "secret volume": 100, "emptyDir volume": 200, "projected volume": 5000, "claim volume": 50,
		"envFrom": 300, "readiness probe": 1000, "liveness probe": 500, "container security context": 300,
		"literal env": 3000, "field env": 500, "secret env": 500,
		"prometheus.io/scrape": 500, "checksum/config": 300, "sidecar.istio.io/status": 20,
		"app.kubernetes.io/name": 1500, "pod-template-hash": 3000, "team": 5000, "tier": 800,
		"managed by kube-controller-manager": 5000, "managed by kubelet": 4800, "restarts": 200,
	} {
		if counts[what] < least {
			t.Errorf("%d of %s, want %d or more", counts[what], what, least)
		}
	}
	if counts["5 containers"] > 0 {
		t.Error("a pod has 5 containers")
	}
	most := 0
	for _, n := range namespaces {
		most = max(most, n)
	}
	if len(namespaces) != len(f.Namespaces()) || most < 3*5000/len(namespaces) || most > 2500 {
		t.Errorf("%d namespaces of %d have pods, the largest has %d", len(namespaces), len(f.Namespaces()), most)
	}
	if len(nodes) != len(f.Nodes()) || len(nodes) != 5000/30 {
		t.Errorf("%d nodes of %d have pods", len(nodes), len(f.Nodes()))
	}
}

// Pods of different workloads differ, and pods of one workload are alike.
func TestWorkloadsDiffer(t *testing.T) {
	f := New(Config{Pods: 2000})
	owners := map[string]string{} // the shared part of a workload's pods, by owner
	shapes := map[string]bool{}
	for pod := range f.All() {
		if pod.OwnerReferences[0].Kind == "StatefulSet" {
			continue // has a label with the pod's name
		}
		shared, err := json.Marshal([]any{pod.Labels, pod.Annotations, pod.Spec.Containers[0].Env, pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Resources})
		if err != nil {
			t.Fatal(err)
		}
		owner := string(pod.OwnerReferences[0].UID)
		if other, ok := owners[owner]; ok && other != string(shared) {
			t.Errorf("pods of %s differ:\n%s\n%s", pod.GenerateName, other, shared)
		}
		owners[owner] = string(shared)
		shapes[string(shared)] = true
	}
	if len(shapes) != len(owners) {
		t.Errorf("%d workloads have %d shapes", len(owners), len(shapes))
	}
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		pods   int
		spaces int
		nodes  int
		panics string
	}{
		{"zero", Config{}, 1000, 10, 33, ""},
		{"one pod", Config{Pods: 1}, 1, 4, 3, ""},
		{"few", Config{Pods: 7, Namespaces: 2, Nodes: 1}, 7, 2, 1, ""},
		{"many namespaces", Config{Pods: 300, Namespaces: 500}, 300, 500, 10, ""},
		{"large", Config{Pods: 30_000}, 30_000, 200, 1000, ""},
		{"negative", Config{Pods: -1}, 0, 0, 0, "Config.Pods"},
		{"too many", Config{Pods: 5_000_000}, 0, 0, 0, "Config.Pods"},
		{"too many nodes", Config{Nodes: 2_000_000}, 0, 0, 0, "Config.Nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); test.panics != "" && !strings.Contains(got, test.panics) {
					t.Errorf("panic is %q, want one that names %s", got, test.panics)
				} else if test.panics == "" && got != "<nil>" {
					t.Error("panic:", got)
				}
			}()
			f := New(test.config)
			if f.Len() != test.pods || len(f.Namespaces()) != test.spaces || len(f.Nodes()) != test.nodes {
				t.Errorf("%d pods, %d namespaces, %d nodes; want %d, %d, %d", f.Len(), len(f.Namespaces()), len(f.Nodes()), test.pods, test.spaces, test.nodes)
			}
			sum, names := 0, map[string]bool{}
			for _, w := range f.workloads {
				if w.first != sum || w.replicas < 1 {
					t.Errorf("workload %s has pods from %d, %d of them; want from %d", w.name, w.first, w.replicas, sum)
				}
				sum += w.replicas
			}
			for _, name := range f.Namespaces() {
				names[name] = true
			}
			if sum != f.Len() || len(names) != test.spaces {
				t.Errorf("workloads have %d pods, want %d; %d different names of namespaces", sum, f.Len(), len(names))
			}
			f.Pod(0)
			f.Pod(f.Len() - 1)
		})
	}
}

func TestSuffixesNeverRepeat(t *testing.T) {
	f := New(Config{})
	volumes, names := make([]bool, suffixes), make([]bool, suffixes)
	for n := range uint64(suffixes / 2) {
		// Suffixes sort like their numbers, so the numbers can stand for them.
		v := (n%suffixes*6_180_340 + f.podSalt%suffixes) % suffixes
		name := newName(n)
		if volumes[v] || names[name] || name%2 == 0 {
			t.Fatalf("number %d repeats volume %d or name %d, or the name is even", n, v, name)
		}
		volumes[v], names[name] = true, true
	}
	if a, b := suffix(0), suffix(suffixes-1); a != "22222" || b != "zzzzz" {
		t.Errorf("suffixes go from %s to %s", a, b)
	}
}

// rawOf returns the fields of a manager.
func rawOf(t *testing.T, entry metav1.ManagedFieldsEntry) []byte {
	t.Helper()
	raw, err := entry.FieldsV1.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestManagedFieldsFollowSpec(t *testing.T) {
	f := New(Config{Pods: 300})
	for pod := range f.All() {
		raw := rawOf(t, pod.ManagedFields[0])
		for _, c := range pod.Spec.Containers {
			injected := c.Name == "istio-proxy"
			if has := bytes.Contains(raw, []byte(`"k:{\"name\":\"`+c.Name+`\"}"`)); has == injected {
				t.Errorf("%s/%s: container %s is in managedFields: %t", pod.Namespace, pod.Name, c.Name, has)
			}
			for _, e := range c.Env {
				if has := bytes.Contains(raw, []byte(`"k:{\"name\":\"`+e.Name+`\"}"`)); !injected && !has {
					t.Errorf("%s/%s: variable %s is not in managedFields", pod.Namespace, pod.Name, e.Name)
				}
			}
		}
		if bytes.Contains(raw, []byte("kube-api-access")) {
			t.Errorf("%s/%s: managedFields have a field that an admission plugin added", pod.Namespace, pod.Name)
		}
	}
}
