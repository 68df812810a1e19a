package fleet

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file derives managedFields from pods: the fields set by their controller and by their kubelet. Sets have the
// format and order of sigs.k8s.io/structured-merge-diff: "f:" is a field, "k:" an item of a list by its keys, "v:" an
// item by its value, "." the element itself. Fields are sorted. The listType markers of the API types say which lists
// are sets of items and which are atomic.

// fieldSet writes a set of fields.
type fieldSet struct{ b []byte }

// open begins the content of the key. Keys must not need escaping.
func (s *fieldSet) open(key string) {
	s.key(key)
	s.b = append(s.b, '{')
}

func (s *fieldSet) close() { s.b = append(s.b, '}') }

// leaf writes fields without content.
func (s *fieldSet) leaf(keys ...string) {
	for _, key := range keys {
		s.key(key)
		s.b = append(s.b, "{}"...)
	}
}

// leafIf writes the field if set is true.
func (s *fieldSet) leafIf(set bool, key string) {
	if set {
		s.leaf(key)
	}
}

func (s *fieldSet) key(key string) {
	s.comma()
	s.b = append(s.b, '"')
	s.b = append(s.b, key...)
	s.b = append(s.b, `":`...)
}

// item begins the item of a list whose key field has this value.
func (s *fieldSet) item(field, value string) {
	s.comma()
	s.b = append(s.b, `"k:{\"`...)
	s.b = append(s.b, field...)
	s.b = append(s.b, `\":\"`...)
	s.b = append(s.b, value...)
	s.b = append(s.b, `\"}":{`...)
}

func (s *fieldSet) comma() {
	if n := len(s.b); n > 0 && s.b[n-1] != '{' {
		s.b = append(s.b, ',')
	}
}

// keys writes the field of a map and each of its keys.
func (s *fieldSet) keys(key string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	s.open(key)
	s.leaf(".")
	for _, name := range names {
		s.comma()
		s.b = append(append(append(s.b, `"f:`...), name...), `":{}`...)
	}
	s.close()
}

// sorted returns pointers to items, sorted by their keys.
func sorted[T any](items []T, key func(*T) string) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	return out
}

// fieldsV1 returns a copy of raw as FieldsV1. From apimachinery 0.38 on, that has no field Raw; all versions have the
// method.
func fieldsV1(raw []byte) *metav1.FieldsV1 {
	fields := &metav1.FieldsV1{}
	_ = fields.UnmarshalJSON(raw) // it fails only for nil
	return fields
}

// managedByController returns the fields that kube-controller-manager owns: all of the present metadata and spec.
func managedByController(pod *corev1.Pod) *metav1.FieldsV1 {
	s := &fieldSet{b: make([]byte, 0, 4096)}
	s.b = append(s.b, '{')
	s.open("f:metadata")
	s.keys("f:annotations", pod.Annotations)
	if len(pod.Finalizers) > 0 {
		s.open("f:finalizers")
		s.leaf(".")
		for _, name := range pod.Finalizers {
			s.leaf(`v:\"` + name + `\"`)
		}
		s.close()
	}
	s.leafIf(pod.GenerateName != "", "f:generateName")
	s.keys("f:labels", pod.Labels)
	s.open("f:ownerReferences")
	s.leaf(".")
	for _, ref := range pod.OwnerReferences {
		s.item("uid", string(ref.UID))
		s.close()
	}
	s.close()
	s.close()
	s.open("f:spec")
	s.spec(&pod.Spec)
	s.close()
	s.close()
	return fieldsV1(s.b)
}

func (s *fieldSet) spec(spec *corev1.PodSpec) {
	s.affinity(spec.Affinity)
	s.containers("f:containers", spec.Containers)
	s.leaf("f:dnsPolicy", "f:enableServiceLinks")
	s.leafIf(spec.Hostname != "", "f:hostname")
	if len(spec.ImagePullSecrets) > 0 {
		s.open("f:imagePullSecrets")
		s.leaf(".")
		for _, ref := range sorted(spec.ImagePullSecrets, func(r *corev1.LocalObjectReference) string { return r.Name }) {
			s.item("name", ref.Name)
			s.close()
		}
		s.close()
	}
	s.containers("f:initContainers", spec.InitContainers)
	s.leafIf(spec.NodeSelector != nil, "f:nodeSelector")
	s.leafIf(spec.PriorityClassName != "", "f:priorityClassName")
	s.leaf("f:restartPolicy", "f:schedulerName")
	if c := spec.SecurityContext; c != nil {
		s.open("f:securityContext")
		s.leafIf(c.FSGroup != nil || c.RunAsUser != nil || c.SeccompProfile != nil, ".")
		s.leafIf(c.FSGroup != nil, "f:fsGroup")
		s.leafIf(c.RunAsGroup != nil, "f:runAsGroup")
		s.leafIf(c.RunAsNonRoot != nil, "f:runAsNonRoot")
		s.leafIf(c.RunAsUser != nil, "f:runAsUser")
		if c.SeccompProfile != nil {
			s.open("f:seccompProfile")
			s.leaf(".", "f:type")
			s.close()
		}
		s.close()
	}
	s.leaf("f:serviceAccount", "f:serviceAccountName")
	s.leafIf(spec.Subdomain != "", "f:subdomain")
	s.leaf("f:terminationGracePeriodSeconds")
	s.leafIf(len(spec.Tolerations) > 0, "f:tolerations")
	s.topologySpread(spec.TopologySpreadConstraints)
	s.volumes(spec.Volumes)
}

func (s *fieldSet) affinity(a *corev1.Affinity) {
	if a == nil {
		return
	}
	s.open("f:affinity")
	s.leaf(".")
	if n := a.NodeAffinity; n != nil {
		s.open("f:nodeAffinity")
		s.leaf(".")
		s.leafIf(n.PreferredDuringSchedulingIgnoredDuringExecution != nil,
			"f:preferredDuringSchedulingIgnoredDuringExecution")
		s.leafIf(n.RequiredDuringSchedulingIgnoredDuringExecution != nil, "f:requiredDuringSchedulingIgnoredDuringExecution")
		s.close()
	}
	if p := a.PodAntiAffinity; p != nil {
		s.open("f:podAntiAffinity")
		s.leaf(".")
		s.leafIf(p.PreferredDuringSchedulingIgnoredDuringExecution != nil,
			"f:preferredDuringSchedulingIgnoredDuringExecution")
		s.leafIf(p.RequiredDuringSchedulingIgnoredDuringExecution != nil, "f:requiredDuringSchedulingIgnoredDuringExecution")
		s.close()
	}
	s.close()
}

func (s *fieldSet) topologySpread(constraints []corev1.TopologySpreadConstraint) {
	if len(constraints) == 0 {
		return
	}
	s.open("f:topologySpreadConstraints")
	s.leaf(".")
	for _, c := range sorted(constraints, func(c *corev1.TopologySpreadConstraint) string { return c.TopologyKey }) {
		s.open(`k:{\"topologyKey\":\"` + c.TopologyKey + `\",\"whenUnsatisfiable\":\"` + string(c.WhenUnsatisfiable) + `\"}`)
		s.leaf(".")
		s.leafIf(c.LabelSelector != nil, "f:labelSelector")
		s.leaf("f:maxSkew", "f:topologyKey", "f:whenUnsatisfiable")
		s.close()
	}
	s.close()
}

func (s *fieldSet) volumes(volumes []corev1.Volume) {
	if len(volumes) == 0 {
		return
	}
	s.open("f:volumes")
	s.leaf(".")
	for _, v := range sorted(volumes, func(v *corev1.Volume) string { return v.Name }) {
		s.item("name", v.Name)
		s.leaf(".")
		switch {
		case v.ConfigMap != nil:
			s.open("f:configMap")
			s.leaf(".", "f:defaultMode", "f:name")
			s.close()
		case v.EmptyDir != nil:
			s.open("f:emptyDir")
			if v.EmptyDir.SizeLimit != nil {
				s.leaf(".", "f:sizeLimit")
			}
			s.close()
		case v.PersistentVolumeClaim != nil:
			s.leaf("f:name")
			s.open("f:persistentVolumeClaim")
			s.leaf(".", "f:claimName")
			s.close()
		}
		if v.PersistentVolumeClaim == nil {
			s.leaf("f:name")
		}
		if v.Secret != nil {
			s.open("f:secret")
			s.leaf(".", "f:defaultMode", "f:secretName")
			s.close()
		}
		s.close()
	}
	s.close()
}

func (s *fieldSet) containers(field string, containers []corev1.Container) {
	if len(containers) == 0 {
		return
	}
	s.open(field)
	// containers is a required field, so no one owns the field itself.
	s.leafIf(field == "f:initContainers", ".")
	for _, c := range sorted(containers, func(c *corev1.Container) string { return c.Name }) {
		s.item("name", c.Name)
		s.container(c)
		s.close()
	}
	s.close()
}

func (s *fieldSet) container(c *corev1.Container) {
	s.leaf(".")
	s.leafIf(len(c.Args) > 0, "f:args")
	s.leafIf(len(c.Command) > 0, "f:command")
	s.env(c.Env)
	s.leafIf(len(c.EnvFrom) > 0, "f:envFrom")
	s.leaf("f:image", "f:imagePullPolicy")
	if c.Lifecycle != nil {
		s.open("f:lifecycle")
		s.leaf(".")
		s.open("f:preStop")
		s.leaf(".")
		s.open("f:exec")
		s.leaf(".", "f:command")
		s.close()
		s.close()
		s.close()
	}
	s.probe("f:livenessProbe", c.LivenessProbe)
	s.leaf("f:name")
	if len(c.Ports) > 0 {
		s.open("f:ports")
		s.leaf(".")
		// Numbers sort numerically.
		ports := slices.SortedFunc(slices.Values(c.Ports),
			func(a, b corev1.ContainerPort) int { return cmp.Compare(a.ContainerPort, b.ContainerPort) })
		for _, p := range ports {
			s.open(`k:{\"containerPort\":` + strconv.Itoa(int(p.ContainerPort)) + `,\"protocol\":\"` + string(p.Protocol) +
				`\"}`)
			s.leaf(".", "f:containerPort", "f:name", "f:protocol")
			s.close()
		}
		s.close()
	}
	s.probe("f:readinessProbe", c.ReadinessProbe)
	s.open("f:resources")
	if r := &c.Resources; len(r.Limits)+len(r.Requests) > 0 {
		s.leaf(".")
		s.resources("f:limits", r.Limits)
		s.resources("f:requests", r.Requests)
	}
	s.close()
	if c := c.SecurityContext; c != nil {
		s.open("f:securityContext")
		s.leaf(".")
		s.leafIf(c.AllowPrivilegeEscalation != nil, "f:allowPrivilegeEscalation")
		if c.Capabilities != nil {
			s.open("f:capabilities")
			s.leaf(".", "f:drop")
			s.close()
		}
		s.leafIf(c.ReadOnlyRootFilesystem != nil, "f:readOnlyRootFilesystem")
		s.close()
	}
	s.probe("f:startupProbe", c.StartupProbe)
	s.leaf("f:terminationMessagePath", "f:terminationMessagePolicy")
	if len(c.VolumeMounts) > 0 {
		s.open("f:volumeMounts")
		s.leaf(".")
		for _, m := range sorted(c.VolumeMounts, func(m *corev1.VolumeMount) string { return m.MountPath }) {
			s.item("mountPath", m.MountPath)
			s.leaf(".", "f:mountPath", "f:name")
			s.leafIf(m.ReadOnly, "f:readOnly")
			s.close()
		}
		s.close()
	}
}

func (s *fieldSet) env(env []corev1.EnvVar) {
	if len(env) == 0 {
		return
	}
	s.open("f:env")
	s.leaf(".")
	for _, e := range sorted(env, func(e *corev1.EnvVar) string { return e.Name }) {
		s.item("name", e.Name)
		s.leaf(".", "f:name")
		s.leafIf(e.Value != "", "f:value")
		if from := e.ValueFrom; from != nil {
			s.open("f:valueFrom")
			s.leaf(".")
			s.leafIf(from.FieldRef != nil, "f:fieldRef")
			s.leafIf(from.SecretKeyRef != nil, "f:secretKeyRef")
			s.close()
		}
		s.close()
	}
	s.close()
}

func (s *fieldSet) probe(field string, p *corev1.Probe) {
	if p == nil {
		return
	}
	s.open(field)
	s.leaf(".", "f:failureThreshold")
	if p.HTTPGet != nil {
		s.open("f:httpGet")
		s.leaf(".", "f:path", "f:port", "f:scheme")
		s.close()
	}
	s.leafIf(p.InitialDelaySeconds != 0, "f:initialDelaySeconds")
	s.leaf("f:periodSeconds", "f:successThreshold")
	if p.TCPSocket != nil {
		s.open("f:tcpSocket")
		s.leaf(".", "f:port")
		s.close()
	}
	s.leaf("f:timeoutSeconds")
	s.close()
}

func (s *fieldSet) resources(field string, list corev1.ResourceList) {
	if len(list) == 0 {
		return
	}
	s.open(field)
	s.leaf(".")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := list[name]; ok {
			s.leaf("f:" + string(name))
		}
	}
	s.close()
}

// managedByKubelet returns the fields that the kubelet owns: the status without the scheduler's and the API server's
// fields.
func managedByKubelet(pod *corev1.Pod) *metav1.FieldsV1 {
	status := &pod.Status
	s := &fieldSet{b: make([]byte, 0, 1200)}
	s.b = append(s.b, '{')
	s.open("f:status")
	s.open("f:conditions")
	for _, c := range sorted(status.Conditions, func(c *corev1.PodCondition) string { return string(c.Type) }) {
		if c.Type == corev1.PodScheduled {
			continue // owned by the scheduler
		}
		s.item("type", string(c.Type))
		s.leaf(".", "f:lastProbeTime", "f:lastTransitionTime")
		s.leafIf(c.Message != "", "f:message")
		s.leafIf(c.Reason != "", "f:reason")
		s.leaf("f:status", "f:type")
		s.close()
	}
	s.close()
	s.leaf("f:containerStatuses", "f:hostIP", "f:hostIPs")
	s.leafIf(len(status.InitContainerStatuses) > 0, "f:initContainerStatuses")
	s.leafIf(status.Phase != corev1.PodPending, "f:phase")
	if status.PodIP != "" {
		s.leaf("f:podIP")
		s.open("f:podIPs")
		s.leaf(".")
		for _, ip := range status.PodIPs {
			s.item("ip", ip.IP)
			s.leaf(".", "f:ip")
			s.close()
		}
		s.close()
	}
	s.leaf("f:startTime")
	s.close()
	s.close()
	return fieldsV1(s.b)
}
