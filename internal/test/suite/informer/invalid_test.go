package informer

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// funcObject cannot be decoded: JSON cannot fill one of its fields.
type funcObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Hook              func() `json:"hook"`
}

// An informer that can never run reports its error even if go inf.Run(ctx) drops it, or nothing calls Run: New logs it, and
// each wait returns it at once.
// Guarantees: L4
func TestInvalidInformerSaysSoAtOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := informer.Resource{GroupVersionResource: world.PodGVR}
		invalidInformer(w, nil, pods, informer.Config[*corev1.Pod]{}, "the client is nil")
		invalidInformer(w, w.Client(), informer.Resource{}, informer.Config[*corev1.Pod]{}, "Resource.Resource is empty")
		invalidInformer(w, w.Client(), pods, informer.Config[*corev1.Pod]{PageSize: -1}, "Config.PageSize is -1")
		invalidInformer(w, w.Client(), pods, informer.Config[*funcObject]{}, "field Hook is of type func()")
	})
}

func invalidInformer[T informer.Object](w world.World, client *informer.Client, resource informer.Resource, config informer.Config[T], want string) {
	w.Helper()
	var log strings.Builder
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	inf := informer.New(client, resource, config)
	if strings.Count(log.String(), want) != 1 || !strings.Contains(log.String(), "level=ERROR") {
		w.Errorf("New logs %q, want %s", &log, want)
	}
	ctx := w.Context()
	pod := world.NewPod("ns", "a")
	pod.ResourceVersion = "1"
	sub := inf.Subscribe(informer.HandlerFuncs[T]{})
	_, await := inf.Await(ctx, informer.Key{Name: "a"}, world.IsGone)
	errs := func(when string) {
		for what, err := range map[string]error{
			"WaitSynced":              inf.WaitSynced(ctx),
			"WaitForResourceVersion":  inf.WaitForResourceVersion(ctx, "1"),
			"WaitForObject":           inf.WaitForObject(ctx, pod),
			"Await":                   await,
			"Subscription.Err":        sub.Err(),
			"Subscription.WaitSynced": sub.WaitSynced(ctx),
			"Run":                     inf.Run(ctx),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("%s, %s: %v, want %s", what, when, err, want)
			}
		}
	}
	errs("before Run")
	errs("after Run")
	for range inf.Changes(ctx) {
		w.Error("an invalid informer yielded a change")
	}
	if inf.HasSynced() || sub.HasSynced() || inf.Status().Synced || inf.Store().Len() != 0 {
		w.Errorf("status %+v", inf.Status())
	}
	log.Reset()
	g := informer.NewGroup(client)
	if _, _, err := informer.Shared(g, resource, config); err == nil || !strings.Contains(err.Error(), want) || log.Len() > 0 {
		w.Errorf("Shared: %v, log %q", err, &log)
	}
	if config.PageSize < 0 {
		return // NewReflector does not check PageSize
	}
	if _, err := informer.NewReflector(client, resource, informer.NewFIFO[T](0), config); err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("NewReflector: %v", err)
	}
	if _, err := informer.NewTypedClient[T](client, resource.GroupVersionResource).Get(ctx, informer.Key{Name: "a"}, metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("TypedClient.Get: %v", err)
	}
}
