package fleet

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// containers adds the main container, sidecars, init containers, and the volumes that they mount.
func (s *shaper) containers() {
	spec := &s.pod.Spec
	main := s.mainContainer()
	extra := 0
	if s.w.kind != daemonSet { // each has a large share of all pods, which would all have the same extra containers
		extra = s.weighted(87, 9, 3, 1)
	}
	if s.mesh {
		extra = min(extra, 2) // at most four containers
	}
	containers := make([]corev1.Container, 0, extra+2) // the mesh may add one
	containers = append(containers, main)
	from := s.n(len(sidecars))
	for i := range extra {
		containers = append(containers, s.sidecar(&sidecars[(from+i)%len(sidecars)]))
	}
	spec.Containers = containers
	if s.chance(7) {
		spec.InitContainers = append(spec.InitContainers, s.initContainer(main))
		if s.chance(15) {
			wait := corev1.Container{
				Name: "wait-for-dependencies", Image: "docker.io/library/busybox:1.37",
				Command: []string{"sh", "-c", "until nc -z " + s.app + "-postgresql 5432; do sleep 2; done"},
			}
			setDefaults(&wait)
			spec.InitContainers = append(spec.InitContainers, wait)
		}
	}
}

func (s *shaper) mainContainer() corev1.Container {
	c := corev1.Container{Name: pick(&s.rng, []string{s.app, s.app, "app", "main", "server"}), Image: s.image}
	if s.chance(25) {
		c.Command = []string{pick(&s.rng, commands)}
	}
	if s.chance(30) {
		c.Args = []string{"--config=/etc/app/" + s.app + ".yaml", "--listen=:" + strconv.Itoa(int(s.port))}
		if s.chance(40) {
			c.Args = append(c.Args, "--log-level="+pick(&s.rng, levels))
		}
	}
	if s.w.kind != job && s.chance(70) {
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: s.port, Protocol: corev1.ProtocolTCP}}
		if s.chance(12) {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP})
		}
	}
	c.Env = s.env()
	if s.chance(25) {
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.app + "-env"},
		}}}
		if s.chance(50) {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.app + "-secrets"},
			}})
		}
	}
	c.Resources = s.resources()
	if s.w.kind != job {
		port := intstr.FromString("http")
		if len(c.Ports) == 0 || s.chance(40) {
			port = intstr.FromInt32(s.port)
		}
		if s.chance(35) {
			c.ReadinessProbe = probe(pick(&s.rng, probePaths), port, pick(&s.rng, []int32{1, 1, 2, 5}),
				pick(&s.rng, []int32{5, 10, 15}))
		}
		if s.chance(20) {
			c.LivenessProbe = probe(pick(&s.rng, probePaths), port, pick(&s.rng, []int32{1, 1, 2, 5}),
				pick(&s.rng, []int32{10, 20, 30}))
			c.LivenessProbe.InitialDelaySeconds = pick(&s.rng, []int32{0, 10, 30})
		}
		if s.chance(5) {
			c.StartupProbe = &corev1.Probe{
				ProbeHandler:   corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}},
				TimeoutSeconds: 1, PeriodSeconds: 5, SuccessThreshold: 1, FailureThreshold: 60,
			}
		}
	}
	if s.w.kind == deployment && s.chance(15) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep 15"}},
		}}
	}
	if s.chance(20) {
		c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
		if s.chance(70) {
			c.SecurityContext.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		}
		if s.chance(50) {
			c.SecurityContext.ReadOnlyRootFilesystem = new(true)
		}
	}
	s.volumes(&c)
	setDefaults(&c)
	return c
}

// env returns literal values, references to secrets, and references to the pod's own fields.
func (s *shaper) env() []corev1.EnvVar {
	n := pick(&s.rng, []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 8})
	if n == 0 {
		return nil
	}
	vars := make([]corev1.EnvVar, 0, n+3)
	index, stride := s.n(len(envNames)), s.between(1, len(envNames)-1)
	secret := s.n(len(secretNames))
	for i := range n {
		if s.chance(20) {
			name := secretNames[(secret+i)%len(secretNames)]
			vars = append(vars, corev1.EnvVar{Name: name,
				ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: s.app + "-secrets"}, Key: name,
				}}})
			continue
		}
		vars = append(vars, corev1.EnvVar{Name: envNames[index], Value: s.envValue()})
		index = (index + stride) % len(envNames)
	}
	if s.chance(15) {
		for _, field := range fieldEnv[:s.between(1, 3)] {
			vars = append(vars, fieldRef(field[0], field[1]))
		}
	}
	return vars
}

func (s *shaper) envValue() string {
	switch s.n(8) {
	case 0:
		return pick(&s.rng, levels)
	case 1:
		return strconv.Itoa(s.n(10_000))
	case 2:
		return pick(&s.rng, regions)
	case 3:
		return "http://" + pick(&s.rng, subjects) + "-" + pick(&s.rng, roles) + "." + pick(&s.rng, teams) +
			".svc.cluster.local:8080"
	case 4:
		return s.app + "-" + pick(&s.rng, stores) + "." + s.w.namespace + ".svc:" + strconv.Itoa(s.between(1024, 30_000))
	case 5:
		return "kafka-0.kafka.messaging.svc:9092,kafka-1.kafka.messaging.svc:9092"
	case 6:
		return s.team + "-" + s.app
	}
	return strconv.Itoa(s.between(1, 90)) + "s"
}

// resources leaves some containers without limits and a few without requests, so that pods of each QoS class exist.
func (s *shaper) resources() corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	style := s.weighted(20, 42, 26, 12)
	if style == 0 {
		return r
	}
	milli, c := spread(&s.rng, cpuSizes, s.scale)
	mebi, m := spread(&s.rng, memorySizes, s.scale)
	r.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu(milli), corev1.ResourceMemory: memory(mebi)}
	switch style {
	case 1: // many clusters limit memory only
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: memory(mebi)}
	case 2:
		r.Limits = corev1.ResourceList{
			corev1.ResourceCPU:    cpu(cpuSizes[min(c+2, len(cpuSizes)-1)]),
			corev1.ResourceMemory: memory(memorySizes[min(m+1, len(memorySizes)-1)]),
		}
	case 3: // guaranteed
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: cpu(milli), corev1.ResourceMemory: memory(mebi)}
	}
	return r
}

// volumes adds volumes to the pod, and their mounts to its main container.
func (s *shaper) volumes(c *corev1.Container) {
	add := func(name, path string, readOnly bool, source corev1.VolumeSource) {
		s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
	}
	if s.w.kind == statefulSet {
		// The claim is named after the pod, see build.
		add("data", "/var/lib/"+s.app, false,
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}})
	}
	if s.chance(22) {
		add("config", pick(&s.rng, mountPaths), true, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.app + "-config"}, DefaultMode: new(int32(420)),
		}})
	}
	if s.chance(10) {
		add("tls", "/etc/tls", true, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: s.app + "-tls",
			DefaultMode: new(int32(420))}})
	}
	if s.chance(10) {
		add("tmp", "/tmp", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
	if s.chance(5) {
		add("cache", "/var/cache/app", false,
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(memory(pick(&s.rng, memorySizes)))}})
	}
}

// initContainer returns a container that runs another command of the main container's image.
func (s *shaper) initContainer(main corev1.Container) corev1.Container {
	c := corev1.Container{
		Name: pick(&s.rng, []string{"migrate", "init-config", "fetch-assets"}), Image: main.Image,
		Command: []string{pick(&s.rng, commands), pick(&s.rng, []string{"migrate", "render", "prepare"})},
	}
	for i := range main.Env {
		if main.Env[i].ValueFrom != nil && main.Env[i].ValueFrom.SecretKeyRef != nil {
			c.Env = append(c.Env, *main.Env[i].DeepCopy())
		}
	}
	setDefaults(&c)
	return c
}

// sidecarKind is a sidecar that is the same in all pods, except for a few values.
type sidecarKind struct {
	name, image string
	args        []string
	port        int32
	portName    string
	cpu, memory int64
}

var sidecars = []sidecarKind{
	{"cloud-sql-proxy", "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18.2",
		[]string{"--structured-logs", "--port=5432", "acme-prod-7719:europe-west1:main"}, 0, "", 50, 64},
	{"fluent-bit", "cr.fluentbit.io/fluent/fluent-bit:4.1.0", []string{"-c", "/fluent-bit/etc/fluent-bit.yaml"}, 2020,
		"http-metrics", 25, 64},
	{"oauth2-proxy", "quay.io/oauth2-proxy/oauth2-proxy:v7.12.0",
		[]string{"--provider=oidc", "--upstream=http://127.0.0.1:8080",
			"--http-address=0.0.0.0:4180"}, 4180, "oauth2", 10, 64},
	{"otel-collector", "docker.io/otel/opentelemetry-collector-contrib:0.137.0", []string{"--config=/conf/relay.yaml"},
		4317, "otlp", 100, 256},
	{"nginx", "docker.io/nginxinc/nginx-unprivileged:1.29-alpine", nil, 8081, "web", 50, 128},
	{"exporter", "quay.io/prometheus/statsd-exporter:v0.28.0",
		[]string{"--statsd.mapping-config=/etc/statsd/mapping.yaml"}, 9102, "exporter", 10, 64},
	{"config-reloader", "ghcr.io/stakater/reloader:v1.4.8",
		[]string{"--watched-dir=/etc/app", "--reload-url=http://127.0.0.1:8080/-/reload"}, 0, "", 10, 64},
}

func (s *shaper) sidecar(k *sidecarKind) corev1.Container {
	c := corev1.Container{Name: k.name, Image: k.image}
	c.Args = append(c.Args, k.args...)
	if k.port != 0 {
		c.Ports = []corev1.ContainerPort{{Name: k.portName, ContainerPort: k.port, Protocol: corev1.ProtocolTCP}}
	}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu(k.cpu), corev1.ResourceMemory: memory(k.memory)}
	if s.chance(60) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: memory(2 * k.memory)}
	}
	if s.chance(30) {
		c.Env = []corev1.EnvVar{fieldRef("POD_NAME", "metadata.name"), {Name: "SERVICE", Value: s.app}}
	}
	if k.port != 0 && s.chance(30) {
		c.ReadinessProbe = probe("/ready", intstr.FromInt32(k.port), 1, 10)
	}
	setDefaults(&c)
	return c
}

// probe returns an HTTP probe with the API server's defaults.
func probe(path string, port intstr.IntOrString, timeout, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port,
			Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: timeout, PeriodSeconds: period, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

// setDefaults sets the API server's defaults for a container.
func setDefaults(c *corev1.Container) {
	c.ImagePullPolicy = corev1.PullIfNotPresent
	c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
}
