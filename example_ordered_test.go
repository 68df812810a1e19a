package informer_test

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

// This program shows pages of the pods that are not running: most restarts first, then youngest first.
func ExampleNewOrderedIndexFunc() {
	store, writer := informer.NewStore[*corev1.Pod]()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed, corev1.PodFailed, corev1.PodPending} {
		err := writer.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i),
				CreationTimestamp: metav1.NewTime(begin.Add(time.Duration(i) * time.Hour))},
			Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: int32(i / 2)}}},
		}})
		if err != nil {
			fmt.Println(err)
		}
	}

	type row struct {
		restarts int32
		created  time.Time
	}
	rows := func(p *corev1.Pod) []row {
		if p.Status.Phase == corev1.PodRunning {
			return nil // not in the list
		}
		return []row{{p.Status.ContainerStatuses[0].RestartCount, p.CreationTimestamp.Time}}
	}
	byRestarts := informer.NewOrderedIndexFunc(store, rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.restarts, b.restarts), a.created.Compare(b.created))
	})

	all := byRestarts.Range().Descending() // of one snapshot, so that page two belongs to page one
	fmt.Println(all.Len(), "pods,", all.AtLeast(row{restarts: 1}).Len(), "with restarts")
	const size = 2
	for page := range (all.Len() + size - 1) / size {
		for row, pod := range all.Skip(page * size).Limit(size).Entries() {
			fmt.Println("page", page+1, pod.Name, row.restarts)
		}
	}
	// Output:
	// 4 pods, 3 with restarts
	// page 1 web-4 2
	// page 1 web-3 1
	// page 2 web-2 1
	// page 2 web-0 0
}
