// Package snippet declares the names that the READMEs' snippets use without declaring them.
package snippet

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/review"
	"github.com/typedinformer/informer/shard"
)

// For every snippet.
var (
	ctx       context.Context
	client    *informer.Client
	clientset kubernetes.Interface // client-go's
)

// For snippets about tests.
var (
	server *informertest.Server

	// run is the program under test.
	run func(ctx context.Context, client *informer.Client) error
	// allowed says what the users of the server may do.
	allowed func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus
	// testProgram tests run.
	testProgram func(t *testing.T)
)

// For snippets about a controller.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (w *Website) DeepCopy() *Website             { return &Website{w.TypeMeta, *w.ObjectMeta.DeepCopy()} }
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }

var (
	websiteKind schema.GroupKind
	websites    *informer.Informer[*Website]
	deployments *informer.Informer[*appsv1.Deployment]
	writer      *informer.TypedClient[*Website]
)

// For the snippets about a program and its debug page.
var (
	restConfig *rest.Config
	group      *informer.Group
	pods       *informer.Informer[*corev1.Pod]
	nodes      *informer.Informer[*corev1.Node]
	byNode     *informer.Index[*corev1.Pod, string]
	ctl        *informer.Controller[informer.Key]
	elector    *leader.Elector
	replica    *shard.Replica
	m          *manager.Manager
	reviewer   *review.Reviewer
	config     debugpage.Config
)

// For snippets about listers.
var selector labels.Selector
