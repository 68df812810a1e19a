package cluster

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/typedinformer/informer/watchcache"
)

// column is a column of the Table of a kind.
type column[T any] struct {
	name, kind, description string
	wide                    bool // shown only by kubectl get -o wide
	cell                    func(obj T) any
}

// tables are the Tables of the kinds that people look at most, as kube-apiserver prints them
// (k8s.io/kubernetes/pkg/printers/internalversion). Other kinds have the columns Name and Age.
var tables = map[schema.GroupKind]*watchcache.Table{
	{Kind: "ConfigMap"}: tableOf[*corev1.ConfigMap](
		column[*corev1.ConfigMap]{name: "Data", description: corev1.ConfigMap{}.SwaggerDoc()["data"],
			cell: func(obj *corev1.ConfigMap) any { return len(obj.Data) + len(obj.BinaryData) }}, age[*corev1.ConfigMap]()),
	{Kind: "Secret"}: tableOf[*corev1.Secret](
		column[*corev1.Secret]{name: "Type", description: corev1.Secret{}.SwaggerDoc()["type"],
			cell: func(obj *corev1.Secret) any { return obj.Type }},
		column[*corev1.Secret]{name: "Data", description: corev1.Secret{}.SwaggerDoc()["data"],
			cell: func(obj *corev1.Secret) any { return len(obj.Data) }}, age[*corev1.Secret]()),
	{Kind: "ServiceAccount"}: tableOf(age[*corev1.ServiceAccount]()),
	{Kind: "Namespace"}: tableOf[*corev1.Namespace](
		column[*corev1.Namespace]{name: "Status", description: "The status of the namespace",
			cell: func(obj *corev1.Namespace) any { return obj.Status.Phase }}, age[*corev1.Namespace]()),
	{Kind: "Service"}:                    tableOf(serviceColumns...),
	{Kind: "Node"}:                       tableOf(nodeColumns...),
	{Kind: "Pod"}:                        podTable(),
	{Group: "apps", Kind: "Deployment"}:  tableOf(deploymentColumns...),
	{Group: "apps", Kind: "ReplicaSet"}:  tableOf(replicaSetColumns...),
	{Group: "apps", Kind: "StatefulSet"}: tableOf(statefulSetColumns...),
	{Group: "batch", Kind: "Job"}:        tableOf(jobColumns...),
}

// tableOf returns a Table with columns after the name.
func tableOf[T metav1.Object](columns ...column[T]) *watchcache.Table {
	table := &watchcache.Table{Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}}}
	for _, column := range columns {
		definition := metav1.TableColumnDefinition{Name: column.name, Type: cmp.Or(column.kind, "string"),
			Description: column.description}
		if column.wide {
			definition.Priority = 1
		}
		table.Columns = append(table.Columns, definition)
	}
	table.Cells = func(obj metav1.Object) []any {
		cells := []any{obj.GetName()}
		for _, column := range columns {
			cells = append(cells, column.cell(obj.(T)))
		}
		return cells
	}
	return table
}

// age is the column with the time since the creation of the object.
func age[T metav1.Object]() column[T] {
	return column[T]{name: "Age", description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], cell: func(obj T) any {
		return metatable.ConvertToHumanReadableDateType(obj.GetCreationTimestamp())
	}}
}

// templated are the columns of the pods of a kind, for kubectl get -o wide.
func templated[T any](template func(obj T) corev1.PodTemplateSpec) []column[T] {
	join := func(obj T, cell func(c corev1.Container) string) any {
		var all []string
		for _, c := range template(obj).Spec.Containers {
			all = append(all, cell(c))
		}
		return strings.Join(all, ",")
	}
	return []column[T]{
		{name: "Containers", wide: true, description: "Names of each container in the template.",
			cell: func(obj T) any { return join(obj, func(c corev1.Container) string { return c.Name }) }},
		{name: "Images", wide: true, description: "Images referenced by each container in the template.",
			cell: func(obj T) any { return join(obj, func(c corev1.Container) string { return c.Image }) }},
	}
}

// wanted returns the number of replicas in a spec, by default 1.
func wanted(replicas *int32) int32 { return *cmp.Or(replicas, new(int32(1))) }

var deploymentColumns = append(append([]column[*appsv1.Deployment]{
	{name: "Ready", description: "Number of the pod with ready state", cell: func(d *appsv1.Deployment) any {
		return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, wanted(d.Spec.Replicas))
	}},
	{name: "Up-to-date", description: appsv1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"],
		cell: func(d *appsv1.Deployment) any { return d.Status.UpdatedReplicas }},
	{name: "Available", description: appsv1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"],
		cell: func(d *appsv1.Deployment) any { return d.Status.AvailableReplicas }},
	age[*appsv1.Deployment](),
}, templated(func(d *appsv1.Deployment) corev1.PodTemplateSpec { return d.Spec.Template })...),
	column[*appsv1.Deployment]{name: "Selector", wide: true, description: appsv1.DeploymentSpec{}.SwaggerDoc()["selector"],
		cell: func(d *appsv1.Deployment) any {
			selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
			if err != nil {
				return "<invalid>"
			}
			return selector.String()
		}})

var replicaSetColumns = append(append([]column[*appsv1.ReplicaSet]{
	{name: "Desired", kind: "integer", description: appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"],
		cell: func(rs *appsv1.ReplicaSet) any { return wanted(rs.Spec.Replicas) }},
	{name: "Current", kind: "integer", description: appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"],
		cell: func(rs *appsv1.ReplicaSet) any { return rs.Status.Replicas }},
	{name: "Ready", kind: "integer", description: appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"],
		cell: func(rs *appsv1.ReplicaSet) any { return rs.Status.ReadyReplicas }},
	age[*appsv1.ReplicaSet](),
}, templated(func(rs *appsv1.ReplicaSet) corev1.PodTemplateSpec { return rs.Spec.Template })...),
	column[*appsv1.ReplicaSet]{name: "Selector", wide: true, description: appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"],
		cell: func(rs *appsv1.ReplicaSet) any { return metav1.FormatLabelSelector(rs.Spec.Selector) }})

var statefulSetColumns = append([]column[*appsv1.StatefulSet]{
	{name: "Ready", description: "Number of the pod with ready state", cell: func(s *appsv1.StatefulSet) any {
		return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, wanted(s.Spec.Replicas))
	}},
	age[*appsv1.StatefulSet](),
}, templated(func(s *appsv1.StatefulSet) corev1.PodTemplateSpec { return s.Spec.Template })...)

var serviceColumns = []column[*corev1.Service]{
	{name: "Type", description: corev1.ServiceSpec{}.SwaggerDoc()["type"],
		cell: func(s *corev1.Service) any { return s.Spec.Type }},
	{name: "Cluster-IP", description: corev1.ServiceSpec{}.SwaggerDoc()["clusterIP"], cell: func(s *corev1.Service) any {
		if len(s.Spec.ClusterIPs) == 0 {
			return none
		}
		return s.Spec.ClusterIPs[0]
	}},
	{name: "External-IP", description: corev1.ServiceSpec{}.SwaggerDoc()["externalIPs"],
		cell: func(s *corev1.Service) any { return externalIP(s) }},
	{name: "Port(s)", description: corev1.ServiceSpec{}.SwaggerDoc()["ports"], cell: func(s *corev1.Service) any {
		var all []string
		for _, port := range s.Spec.Ports {
			text := fmt.Sprint(port.Port)
			if port.NodePort > 0 {
				text += fmt.Sprint(":", port.NodePort)
			}
			all = append(all, text+"/"+string(port.Protocol))
		}
		return cmp.Or(strings.Join(all, ","), none)
	}},
	age[*corev1.Service](),
	{name: "Selector", wide: true, description: corev1.ServiceSpec{}.SwaggerDoc()["selector"],
		cell: func(s *corev1.Service) any { return labels.FormatLabels(s.Spec.Selector) }},
}

// externalIP returns the addresses of a Service outside of the cluster.
func externalIP(s *corev1.Service) string {
	var all []string
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			all = append(all, cmp.Or(ingress.IP, ingress.Hostname))
		}
		return cmp.Or(strings.Join(append(all, s.Spec.ExternalIPs...), ","), "<pending>")
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return cmp.Or(strings.Join(s.Spec.ExternalIPs, ","), none)
	}
	return "<unknown>"
}

var jobColumns = append(append([]column[*batchv1.Job]{
	{name: "Status", description: "Status of the job.", cell: func(j *batchv1.Job) any { return jobStatus(j) }},
	{name: "Completions", description: batchv1.JobStatus{}.SwaggerDoc()["succeeded"], cell: func(j *batchv1.Job) any {
		switch parallel := wanted(j.Spec.Parallelism); {
		case j.Spec.Completions != nil:
			return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
		case parallel > 1:
			return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, parallel)
		}
		return fmt.Sprintf("%d/1", j.Status.Succeeded)
	}},
	{name: "Duration", description: "Time required to complete the job.",
		cell: func(j *batchv1.Job) any { return jobDuration(j) }},
	age[*batchv1.Job](),
}, templated(func(j *batchv1.Job) corev1.PodTemplateSpec { return j.Spec.Template })...),
	column[*batchv1.Job]{name: "Selector", wide: true, description: batchv1.JobSpec{}.SwaggerDoc()["selector"],
		cell: func(j *batchv1.Job) any { return metav1.FormatLabelSelector(j.Spec.Selector) }})

// jobStatus returns the state of a Job.
func jobStatus(j *batchv1.Job) string {
	has := func(kind batchv1.JobConditionType) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == kind {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

// jobDuration returns how long a Job has run.
func jobDuration(j *batchv1.Job) string {
	switch {
	case j.Status.StartTime == nil:
		return ""
	case j.Status.CompletionTime == nil:
		return duration.HumanDuration(time.Since(j.Status.StartTime.Time))
	}
	return duration.HumanDuration(j.Status.CompletionTime.Sub(j.Status.StartTime.Time))
}
