package fleet

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shaper draws the template of a workload's pods. The same order of draws gives the same template each time.
//
// It works in two steps, as in a cluster: template makes the pod that a controller sends to the API server, with
// defaults. admit then adds the fields of admission plugins and webhooks, which are not in that controller's
// managedFields.
type shaper struct {
	rng
	w     *workload
	pod   *corev1.Pod
	app   string // name without the workload's unique suffix
	team  string
	image string // of the main container
	tag   string
	port  int32
	mesh  bool
	scale int // the workload's typical index in cpuSizes and memorySizes
}

func newShaper(w *workload) *shaper {
	s := &shaper{rng: newRNG(w.seed, domainWorkload, 0), w: w, pod: new(corev1.Pod)}
	s.app = w.name
	if w.kind == job {
		s.app = s.app[:strings.LastIndexByte(s.app, '-')] // the name of its CronJob
	}
	s.team = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(w.namespace, "-prod"), "-staging"), "-dev")
	s.port = pick(&s.rng, []int32{8080, 8080, 8080, 3000, 9000, 8000, 8443, 50051})
	s.scale = s.n(len(cpuSizes))
	s.mesh = w.kind == deployment && s.chance(4)
	switch s.n(3) {
	case 0:
		s.tag = "v" + strconv.Itoa(s.n(9)) + "." + strconv.Itoa(s.n(60)) + "." + strconv.Itoa(s.n(20))
	case 1:
		s.tag = "2026.01." + strconv.Itoa(s.between(1, 14)) + "-" + s.hex(8)
	default:
		s.tag = "main-" + s.hex(7) + "-" + strconv.Itoa(s.between(1000, 99999))
	}
	s.image = pick(&s.rng, registries) + "/" + s.app + ":" + s.tag
	return s
}

// template fills in the fields that the workload's controller sends.
func (s *shaper) template() {
	s.pod.Namespace = s.w.namespace
	s.pod.GenerateName = s.w.prefix
	s.owner()
	s.labels()
	s.annotations()

	spec := &s.pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyAlways
	if s.w.kind == job {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	spec.DNSPolicy = corev1.DNSClusterFirst
	spec.SchedulerName = corev1.DefaultSchedulerName
	spec.EnableServiceLinks = new(true)
	spec.TerminationGracePeriodSeconds = new(pick(&s.rng, []int64{30, 30, 30, 60, 10, 120}))
	spec.SecurityContext = s.podSecurity()
	spec.ServiceAccountName = "default"
	if s.chance(70) {
		spec.ServiceAccountName = s.app
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if s.chance(30) {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pick(&s.rng,
			[]string{"regcred", "ghcr-pull", "acme-registry"})}}
	}
	s.containers()
	s.scheduling()
	if s.w.kind == statefulSet {
		spec.Subdomain = s.w.name + "-headless"
	}
}

// owner adds the reference to the pod's owner: the ReplicaSet of a Deployment, or the workload itself.
func (s *shaper) owner() {
	ref := metav1.OwnerReference{APIVersion: "apps/v1", Name: s.w.name, Controller: new(true),
		BlockOwnerDeletion: new(true)}
	switch s.w.kind {
	case deployment:
		ref.Kind = "ReplicaSet"
		ref.Name += "-" + s.w.hash
	case statefulSet:
		ref.Kind = "StatefulSet"
	case daemonSet:
		ref.Kind = "DaemonSet"
	case job:
		ref.Kind, ref.APIVersion = "Job", "batch/v1"
	}
	ref.UID = s.w.uid()
	s.pod.OwnerReferences = []metav1.OwnerReference{ref}
}

// uid returns the UID of the object that owns the workload's pods.
func (w *workload) uid() types.UID {
	r := newRNG(w.seed, domainOwner, w.cluster)
	return types.UID(r.uuid())
}

func (s *shaper) labels() {
	labels := make(map[string]string, 12)
	s.pod.Labels = labels
	style := s.weighted(42, 48, 10) // recommended labels only, plain ones only, both
	if style != 1 {
		labels["app.kubernetes.io/name"] = s.app
		labels["app.kubernetes.io/instance"] = s.app + pick(&s.rng, []string{"", "-blue", "-" + s.team})
		if s.chance(60) {
			labels["app.kubernetes.io/managed-by"] = pick(&s.rng, managers)
		}
		if s.chance(30) {
			labels["app.kubernetes.io/version"] = s.tag
			labels["app.kubernetes.io/component"] = pick(&s.rng, roles)
			labels["app.kubernetes.io/part-of"] = s.team
		}
		if s.chance(15) {
			labels["helm.sh/chart"] = pick(&s.rng, roles) + "-" + strconv.Itoa(s.n(5)) + "." + strconv.Itoa(s.n(30)) + ".0"
		}
	}
	if style != 0 {
		labels["app"] = s.app
		if s.chance(60) {
			labels["tier"] = pick(&s.rng, tiers)
		}
		if s.chance(30) {
			labels["version"] = s.tag
		}
	}
	labels["team"] = s.team
	if s.chance(15) {
		labels["language"] = pick(&s.rng, languages)
	}
	switch s.w.kind {
	case deployment:
		labels["pod-template-hash"] = s.w.hash
	case statefulSet:
		labels["controller-revision-hash"] = s.w.name + "-" + s.w.hash
		labels["statefulset.kubernetes.io/pod-name"] = "" // see build
		labels["apps.kubernetes.io/pod-index"] = ""
	case daemonSet:
		labels["controller-revision-hash"] = s.w.hash
		labels["pod-template-generation"] = strconv.Itoa(s.between(1, 12))
	case job:
		labels["batch.kubernetes.io/controller-uid"] = string(s.w.uid())
		labels["batch.kubernetes.io/job-name"] = s.w.name
		labels["controller-uid"] = string(s.w.uid())
		labels["job-name"] = s.w.name
	}
}

func (s *shaper) annotations() {
	annotations := make(map[string]string, 6)
	if s.chance(20) {
		annotations["prometheus.io/scrape"] = "true"
		annotations["prometheus.io/port"] = strconv.Itoa(int(s.port))
		annotations["prometheus.io/path"] = pick(&s.rng, []string{"/metrics", "/actuator/prometheus", "/stats/prometheus"})
	}
	if s.chance(20) {
		annotations["checksum/config"] = s.hex(64)
	}
	if s.chance(10) {
		annotations["kubectl.kubernetes.io/restartedAt"] = "2026-01-" + strconv.Itoa(s.between(10, 14)) + "T0" +
			strconv.Itoa(s.n(10)) + ":1" + strconv.Itoa(s.n(10)) + ":27Z"
	}
	if s.chance(8) {
		annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = pick(&s.rng, []string{"true", "false"})
	}
	if s.chance(6) {
		annotations["vault.hashicorp.com/role"] = s.app
		annotations["vault.hashicorp.com/agent-inject"] = "true"
	}
	if len(annotations) > 0 {
		s.pod.Annotations = annotations
	}
}

func (s *shaper) podSecurity() *corev1.PodSecurityContext {
	context := &corev1.PodSecurityContext{}
	if s.chance(20) {
		user := int64(s.between(1, 20) * 500)
		context.RunAsUser, context.RunAsNonRoot = new(user), new(true)
		if s.chance(60) {
			context.RunAsGroup, context.FSGroup = new(user), new(user)
		}
		if s.chance(50) {
			context.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		}
	}
	return context
}

// scheduling adds the fields that influence the choice of a node.
func (s *shaper) scheduling() {
	spec := &s.pod.Spec
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": s.team}}
	if app, ok := s.pod.Labels["app"]; ok {
		selector.MatchLabels = map[string]string{"app": app}
	}
	if s.w.kind == daemonSet {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute})
		}
		for _, key := range []string{corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
			corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoSchedule})
		}
		return // it has an affinity to a node, see build
	}
	if s.chance(15) {
		spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"}
		if s.chance(50) {
			spec.NodeSelector["node.acme.io/pool"] = s.team
		}
	}
	if s.chance(15) {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight:          100,
				PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: selector.DeepCopy(), TopologyKey: corev1.LabelHostname},
			}},
		}}
	}
	if s.chance(6) {
		if spec.Affinity == nil {
			spec.Affinity = &corev1.Affinity{}
		}
		wanted := corev1.NodeSelectorRequirement{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"m7g.2xlarge", "m7g.4xlarge"}}
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{wanted}},
			}},
		}
	}
	if s.w.kind == deployment && s.chance(14) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: selector.DeepCopy(),
		}}
		if s.chance(30) {
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: selector.DeepCopy(),
			})
		}
	}
	if s.chance(12) {
		spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: s.team,
			Effect: corev1.TaintEffectNoSchedule}}
	}
	if s.chance(15) {
		spec.PriorityClassName = pick(&s.rng, priorityNames)
	}
}

// admit adds the fields of the API server's admission plugins and of the service mesh's webhook, for the pod whose
// kube-api-access volume ends in volume. Its draws follow those of the template.
func (s *shaper) admit(volume string) {
	spec := &s.pod.Spec
	spec.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	spec.Priority = new(int32(0))
	switch {
	case s.w.kind == daemonSet:
		spec.PriorityClassName = "system-node-critical"
		spec.Priority = new(int32(2_000_001_000))
	case spec.PriorityClassName != "":
		spec.Priority = new(int32(1000 * len(spec.PriorityClassName)))
	}
	if s.w.kind != daemonSet {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(300)),
			})
		}
	}
	if s.mesh {
		s.inject()
	}

	name := "kube-api-access-" + volume
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name,
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(420)),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}})
	mount := corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = append(containers[i].VolumeMounts, mount)
		}
	}
}

// inject adds a service mesh's sidecar.
func (s *shaper) inject() {
	if s.pod.Annotations == nil {
		s.pod.Annotations = make(map[string]string, 3)
	}
	s.pod.Annotations["sidecar.istio.io/status"] = `{"initContainers":null,"containers":["istio-proxy"],"volumes":["istio-envoy","istio-token"],"imagePullSecrets":null,"revision":"1-27"}`
	s.pod.Annotations["istio.io/rev"] = "1-27"
	s.pod.Labels["security.istio.io/tlsMode"] = "istio"
	s.pod.Labels["service.istio.io/canonical-name"] = s.app
	s.pod.Labels["service.istio.io/canonical-revision"] = s.tag

	c := corev1.Container{
		Name:  "istio-proxy",
		Image: "docker.io/istio/proxyv2:1.27.3",
		Args: []string{"proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--proxyLogLevel=warning",
			"--concurrency", "2"},
		Ports: []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{
			{Name: "CA_ADDR", Value: "istiod-1-27.istio-system.svc:15012"},
			fieldRef("POD_NAME", "metadata.name"), fieldRef("POD_NAMESPACE", "metadata.namespace"), fieldRef("INSTANCE_IP",
				"status.podIP"),
			{Name: "ISTIO_META_WORKLOAD_NAME", Value: s.app}, {Name: "TRUST_DOMAIN", Value: "cluster.local"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: cpu(100), corev1.ResourceMemory: memory(128)},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: cpu(2000), corev1.ResourceMemory: memory(1024)},
		},
		ReadinessProbe: probe("/healthz/ready", intstr.FromInt32(15021), 1, 15),
		VolumeMounts: []corev1.VolumeMount{{Name: "istio-envoy", MountPath: "/etc/istio/proxy"},
			{Name: "istio-token", MountPath: "/var/run/secrets/tokens"}},
	}
	setDefaults(&c)
	s.pod.Spec.Containers = append(s.pod.Spec.Containers, c)
	s.pod.Spec.Volumes = append(s.pod.Spec.Volumes,
		corev1.Volume{Name: "istio-envoy",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		corev1.Volume{Name: "istio-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(420)),
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: "istio-ca", ExpirationSeconds: new(int64(43200)), Path: "istio-token",
			}}},
		}}})
}

// cpu and memory parse their quantities: only then do they equal decoded ones, including the text that a Quantity
// keeps.
func cpu(milli int64) resource.Quantity {
	if milli%1000 == 0 {
		return resource.MustParse(strconv.FormatInt(milli/1000, 10))
	}
	return resource.MustParse(strconv.FormatInt(milli, 10) + "m")
}

func memory(mebi int64) resource.Quantity {
	if mebi%1024 == 0 {
		return resource.MustParse(strconv.FormatInt(mebi/1024, 10) + "Gi")
	}
	return resource.MustParse(strconv.FormatInt(mebi, 10) + "Mi")
}

func fieldRef(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}
