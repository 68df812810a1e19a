package informertest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer"
)

var bindingSubresource = subresource{
	name:  "binding",
	kind:  corev1.SchemeGroupVersion.WithKind("Binding"),
	verbs: createVerb,
	serve: (*collection).serveBinding,
}

// serveBinding assigns a pod to a node, as schedulers do.
func (c *collection) serveBinding(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	binding := &corev1.Binding{}
	if err := readCreate(r, req, binding, &opts); err != nil {
		return err
	}
	if binding.Name != req.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		return internal(field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}).Error())
	}
	if binding.Target.Name == "" {
		return internal(field.Required(field.NewPath("target", "name"), "").Error())
	}
	opts.whole, opts.uncounted = true, true // the status too
	_, err := c.modify(req.key(), opts, func(old object) (object, error) {
		pod := &corev1.Pod{}
		if err := c.into(old, pod); err != nil {
			return nil, err
		}
		if err := bind(pod, binding); err != nil {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, req.Name, err)
		}
		return c.from(pod)
	})
	if err != nil {
		return err
	}
	writeCreated(w, r)
	return nil
}

func bind(pod *corev1.Pod, binding *corev1.Binding) error {
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		//lint:ignore ST1005 kube-apiserver begins it with a capital letter
		return fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", binding.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	if pod.Labels == nil && len(binding.Labels) > 0 {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, binding.Labels)
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return nil
}

// setPodCondition sets a condition of a pod.
func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now().Rfc3339Copy()
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return
	}
	if old := pod.Status.Conditions[i]; old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	pod.Status.Conditions[i] = condition
}

var ephemeralContainersSubresource = subresource{
	name:  "ephemeralcontainers",
	verbs: statusVerbs,
	part:  (*collection).withEphemeralContainers,
}

// withEphemeralContainers returns a pod with the ephemeral containers of another version of it.
func (c *collection) withEphemeralContainers(old, obj object) (object, error) {
	before, after := &corev1.Pod{}, &corev1.Pod{}
	if err := errors.Join(c.into(old, before), c.into(obj, after)); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "ephemeralContainers")
	for _, container := range before.Spec.EphemeralContainers {
		i := slices.IndexFunc(after.Spec.EphemeralContainers, func(other corev1.EphemeralContainer) bool {
			return other.Name == container.Name
		})
		if i < 0 {
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be removed\n", container.Name)))
		} else if !equality.Semantic.DeepEqual(container, after.Spec.EphemeralContainers[i]) {
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n", container.Name)))
		}
	}
	if err := c.invalid(old.GetName(), errs); err != nil {
		return nil, err
	}
	before.Spec.EphemeralContainers = after.Spec.EphemeralContainers
	return c.from(before)
}

var evictionSubresource = subresource{
	name:  "eviction",
	kind:  policyv1.SchemeGroupVersion.WithKind("Eviction"),
	verbs: createVerb,
	serve: (*collection).serveEviction,
}

// budgets is the resource that limits evictions. A server without it has no limits.
var budgets = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")

// maxDisruptedPods is how many evictions a budget remembers that its controller has not yet seen, as in kube-apiserver.
const maxDisruptedPods = 2000

// serveEviction deletes a pod if its PodDisruptionBudget allows that.
func (c *collection) serveEviction(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	eviction := &policyv1.Eviction{}
	if err := readCreate(r, req, eviction, &opts); err != nil {
		return err
	}
	if eviction.Name != req.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	var options metav1.DeleteOptions
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
		opts.dryRun = opts.dryRun || len(options.DryRun) > 0
	}
	obj, ok := c.cache.Get(req.key())
	if !ok {
		return apierrors.NewNotFound(c.resource.GroupResource(), req.Name)
	}
	pod := &corev1.Pod{}
	if err := c.into(obj, pod); err != nil {
		return err
	}
	if err := c.server.disrupt(pod, opts); err != nil {
		return err
	}
	if err := c.evict(req.key(), options, opts); err != nil {
		return err
	}
	writeCreated(w, r)
	return nil
}

// evict marks a pod as evicted, which others see if finalizers keep it, and deletes it.
func (c *collection) evict(key informer.Key, options metav1.DeleteOptions, opts writeOptions) error {
	marked, err := c.modify(key, writeOptions{whole: true, dryRun: opts.dryRun}, func(old object) (object, error) {
		if err := c.checkPreconditions(old, options.Preconditions); err != nil {
			return nil, err
		}
		pod := &corev1.Pod{}
		if err := c.into(old, pod); err != nil {
			return nil, err
		}
		setPodCondition(pod, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		return c.from(pod)
	})
	if err != nil {
		return err
	}
	uid := marked.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	_, _, err = c.delete(key, options, opts)
	return err
}

// disrupt takes the eviction of a pod from its budget, or returns why that does not allow it.
func (s *Server) disrupt(pod *corev1.Pod, opts writeOptions) error {
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed,
		pod.Status.Phase == corev1.PodPending:
		return nil
	}
	s.mu.Lock()
	c := s.collections[budgets]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	matching, err := c.budgetsOf(pod)
	switch {
	case err != nil || len(matching) == 0:
		return err
	case len(matching) > 1:
		return internal("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	case spares(matching[0], pod):
		return nil
	}
	_, err = c.modify(informer.KeyOf(matching[0]), writeOptions{whole: true, dryRun: opts.dryRun},
		func(old object) (object, error) {
			budget := &policyv1.PodDisruptionBudget{}
			if err := c.into(old, budget); err != nil {
				return nil, err
			}
			if err := take(budget, pod); err != nil {
				return nil, err
			}
			return c.from(budget)
		})
	return err
}

// budgetsOf returns the budgets that select a pod.
func (c *collection) budgetsOf(pod *corev1.Pod) (matching []*policyv1.PodDisruptionBudget, err error) {
	for obj := range c.cache.All() {
		budget := &policyv1.PodDisruptionBudget{}
		if err := c.into(obj, budget); err != nil {
			return nil, err
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			matching = append(matching, budget)
		}
	}
	return matching, nil
}

// spares reports whether a budget allows the eviction of a pod because that is not healthy anyway.
func spares(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
}

// take takes one disruption from a budget, or returns kube-apiserver's error.
func take(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	resource := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	status := &budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		return violates(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name))
	case status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(resource, budget.Name, errors.New("pdb disruptions allowed is negative"))
	case len(status.DisruptedPods) > maxDisruptedPods:
		return apierrors.NewForbidden(resource, budget.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case status.DisruptionsAllowed == 0:
		return violates(0, exhausted(budget))
	}
	if status.DisruptionsAllowed--; status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type:               policyv1.DisruptionAllowedCondition,
			Status:             metav1.ConditionFalse,
			ObservedGeneration: status.ObservedGeneration,
			Reason:             policyv1.InsufficientPodsReason,
		})
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod.Name] = metav1.Now().Rfc3339Copy()
	return nil
}

// exhausted says why a budget allows no disruption.
func exhausted(budget *policyv1.PodDisruptionBudget) string {
	status := budget.Status
	condition := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	refused := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	switch {
	case refused && condition.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			budget.Name, condition.Message)
	case status.CurrentHealthy <= status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name,
			status.DesiredHealthy, status.CurrentHealthy)
	case refused:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", budget.Name,
			condition.Reason, condition.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
}

// violates returns the 429 of an eviction that a budget does not allow.
func violates(retryAfterSeconds int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.",
		retryAfterSeconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
