package generated

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	slimcore "github.com/typedinformer/informer/codegen/testdata/protobuf/out/core/v1"
	"github.com/typedinformer/informer/informertest"
)

// realPod sets every field of slimcore.Pod, and many others.
func realPod() *corev1.Pod {
	now := metav1.Unix(1768467600, 0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-7d9c-x2x4z", UID: types.UID("0b5b1ac7"), ResourceVersion: "12345", Generation: 3, GenerateName: "web-7d9c-",
			Labels:            map[string]string{"app": "web", "empty": ""},
			Annotations:       map[string]string{"example.com/owner": "me", "example.com/other": "you"},
			CreationTimestamp: now, DeletionTimestamp: &now, Finalizers: []string{"a", "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9c", UID: "u", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-7", HostNetwork: true, Priority: new(int32(-5)), EnableServiceLinks: new(false),
			NodeSelector: map[string]string{"disk": "ssd"},
			Overhead:     corev1.ResourceList{"cpu": resource.MustParse("250m")},
			Volumes:      []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))}, {}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(1000)), SupplementalGroups: []int64{1, 1 << 40, -1}, FSGroup: new(int64(2)),
			},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}},
			Containers: []corev1.Container{
				{
					Name: "web", Image: "web:1", Args: []string{"-v", ""}, Ports: []corev1.ContainerPort{{ContainerPort: 80}, {Name: "metrics", ContainerPort: 9090}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}},
				},
				{Name: "side", Image: "side:2"},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, StartTime: &now,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		},
	}
}

// slimOf returns the slimcore.Pod for pod.
func slimOf(pod *corev1.Pod) *slimcore.Pod {
	slim := &slimcore.Pod{}
	meta, spec, status := &slim.PodObjectMeta, &slim.Spec, &slim.Status
	meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion, meta.Generation = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Generation
	meta.Labels, meta.CreationTimestamp, meta.DeletionTimestamp = pod.Labels, pod.CreationTimestamp, pod.DeletionTimestamp
	meta.Finalizers, meta.OwnerReferences = pod.Finalizers, pod.OwnerReferences
	if owner, ok := pod.Annotations["example.com/owner"]; ok {
		meta.Annotations.ExampleComOwner = &owner
	}
	spec.NodeName, spec.HostNetwork, spec.Priority, spec.EnableServiceLinks = pod.Spec.NodeName, pod.Spec.HostNetwork, pod.Spec.Priority, pod.Spec.EnableServiceLinks
	spec.NodeSelector, spec.Overhead, spec.Tolerations, spec.Affinity = pod.Spec.NodeSelector, pod.Spec.Overhead, pod.Spec.Tolerations, pod.Spec.Affinity
	if security := pod.Spec.SecurityContext; security != nil {
		spec.SecurityContext = &slimcore.PodSpecSecurityContext{RunAsUser: security.RunAsUser, SupplementalGroups: security.SupplementalGroups}
	}
	for _, c := range pod.Spec.Containers {
		slim := slimcore.PodSpecContainers{Image: c.Image, Args: c.Args, Resources: slimcore.PodSpecContainersResources{Requests: c.Resources.Requests}}
		for _, p := range c.Ports {
			slim.Ports = append(slim.Ports, slimcore.PodSpecContainersPorts{ContainerPort: p.ContainerPort})
		}
		spec.Containers = append(spec.Containers, slim)
	}
	status.Phase, status.PodIPs, status.StartTime, status.Conditions = pod.Status.Phase, pod.Status.PodIPs, pod.Status.StartTime, pod.Status.Conditions
	return slim
}

func TestProtobufOfSomeFields(t *testing.T) {
	for _, pod := range []*corev1.Pod{realPod(), {}} {
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		full, slim := &corev1.Pod{}, &slimcore.Pod{}
		if err := full.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if err := slim.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slimOf(full), slim); diff != "" {
			t.Errorf("(-full type +slim type):\n%s", diff)
		}
		fromJSON := mustDecode[*slimcore.Pod](t, mustEncode(t, pod))
		if diff := cmp.Diff(fromJSON, slim); diff != "" {
			t.Errorf("(-JSON +protobuf):\n%s", diff)
		}
	}
	have := slimOf(realPod())
	for _, part := range []reflect.Value{reflect.ValueOf(have.PodObjectMeta), reflect.ValueOf(have.Spec), reflect.ValueOf(have.Status)} {
		for i := range part.NumField() {
			if part.Field(i).IsZero() {
				t.Errorf("realPod has nothing in %s", part.Type().Field(i).Name)
			}
		}
	}

	// Kubernetes does not pack numbers, but every decoder accepts packed ones. A bool is true for values above 1.
	for _, raw := range [][]byte{{0x12, 6, 0x72, 4, 0x22, 2, 1, 2}, {0x12, 2, 0x58, 2}} {
		if !checkSlim(t, raw) {
			t.Errorf("%x is not taken", raw)
		}
	}

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"x": {0, 255}, "none": {}}}
	raw, err := config.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	slim := &slimcore.ConfigMap{}
	if err := slim.Unmarshal(raw); err != nil || slim.Name != "c" || !reflect.DeepEqual(slim.Data, config.Data) || !reflect.DeepEqual(slim.BinaryData, config.BinaryData) {
		t.Errorf("%+v, %v", slim, err)
	}
	// No protobuf message has kind.
	if _, ok := any(&slimcore.Node{}).(interface{ Unmarshal([]byte) error }); ok {
		t.Error("a Node with its kind is read as protobuf")
	}
}

// An informer of slim pods requests protobuf, and its objects equal those from JSON.
func TestSlimPodsComeAsProtobuf(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: slimcore.PodResource})
	pod := realPod()
	pod.DeletionTimestamp, pod.Finalizers = nil, nil
	created, err := pods.Create(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, contentType := range []string{"application/json", ""} {
		config := server.Config()
		config.ContentType = contentType
		client, err := informer.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		server.ResetRequests()
		slims := slimcore.NewPodInformer(client, informer.Config[*slimcore.Pod]{})
		lister := slimcore.NewPodLister(slims)
		start(t, slims)
		for _, r := range server.Requests() {
			if isProtobuf := bytes.Contains([]byte(r.Header.Get("Accept")), []byte("protobuf")); isProtobuf != (contentType == "") {
				t.Errorf("it accepts %s", r.Header.Get("Accept"))
			}
		}
		got := slices.Collect(lister.ByNode("node-7"))
		if len(got) != 1 {
			t.Fatalf("%d pods", len(got))
		}
		if diff := cmp.Diff(slimOf(created), got[0]); diff != "" {
			t.Errorf("%q (-server +store):\n%s", contentType, diff)
		}
	}
}

// checkSlim compares the decoders of the full and the slim type on input that both accept. Generated code accepts some
// malformed input, and the slim type's decoder does not look into fields that it skips.
func checkSlim(t *testing.T, raw []byte) (taken bool) {
	full, slim := &corev1.Pod{}, &slimcore.Pod{}
	if slim.Unmarshal(raw) != nil || full.Unmarshal(raw) != nil {
		return false
	}
	want, wantErr := json.Marshal(slimOf(full))
	got, gotErr := json.Marshal(slim)
	if wantErr == nil && gotErr == nil && utf8.Valid(raw) && !bytes.Equal(want, got) {
		t.Fatalf("%x:\n%s, want\n%s", raw, got, want)
	}
	return true
}

func FuzzSlimPod(f *testing.F) {
	for _, pod := range []*corev1.Pod{realPod(), {}} {
		raw, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkSlim(t, raw) })
}

// Damaged pods, as a quick substitute for fuzzing.
func TestDamagedSlimPods(t *testing.T) {
	pod := realPod()
	original, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for i := range original {
		checkSlim(t, original[:i])
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	taken := 0
	for range 20000 {
		raw := slices.Clone(original)
		for range 1 + r.IntN(4) {
			switch i := r.IntN(len(raw)); r.IntN(3) {
			case 0:
				raw[i] = byte(r.IntN(256))
			case 1:
				raw[i] ^= 1 << r.IntN(8)
			case 2:
				raw = slices.Insert(raw, i, raw[i:min(len(raw), i+r.IntN(20))]...)
			}
		}
		if checkSlim(t, raw) {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d of them are taken", taken)
	}
}

func BenchmarkDecodePod(b *testing.B) {
	pod := realPod()
	raw, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func() error{
		"full": func() error { return new(corev1.Pod).Unmarshal(raw) },
		"slim": func() error { return new(slimcore.Pod).Unmarshal(raw) },
	} {
		b.Run("type="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
