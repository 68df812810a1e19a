package world

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// Logged returns a Config whose log goes to the returned Log.
func Logged() (informer.Config[*corev1.Pod], *testkit.Log) {
	log := &testkit.Log{}
	return informer.Config[*corev1.Pod]{Logger: log.Logger()}, log
}

// StatusOf returns the status of an informer's only reflector.
func StatusOf(inf *informer.Informer[*corev1.Pod]) status.Reflector {
	return inf.Status().Reflectors[0]
}
