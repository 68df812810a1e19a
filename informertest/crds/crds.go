// Package crds makes a server of package informertest serve CustomResourceDefinitions and the resources that they
// define.
//
//	server := informertest.NewServer(informertest.Options{})
//	defer server.Close()
//	definitions := crds.Serve(server)
//	err := definitions.InstallCRDs("../config/crd")
//
// Clients may also create, change and delete definitions. A definition takes effect before the client gets its response:
// each served version is in discovery, the conditions NamesAccepted and Established are set, and a definition that is
// deleted takes its objects along, when their finalizers allow it.
//
// # Supported
//
//   - All versions of a definition share their objects. The conversion strategy is None, even if the definition asks
//     for a webhook. Objects have the fields and defaults of the storage version; another version shows and keeps only
//     those that its schema has too.
//   - Structural schemas prune, default and validate objects, with x-kubernetes-validations (CEL), embedded resources,
//     list types and ratcheting, by the packages of k8s.io/apiextensions-apiserver. They also validate definitions.
//   - Scope, names and their conflicts, categories, the subresources status and scale, selectableFields, printer columns,
//     deprecation warnings, and server-side apply with the list types of the schema.
//   - While a definition is being deleted, no object of it can be created.
//
// Server.Restore restores definitions and objects, but does not change which resources the server serves.
//
// The module is separate from informertest because apiextensions-apiserver has many dependencies.
package crds

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Definitions are the CustomResourceDefinitions of a server. Create one with [Serve]. All methods are safe for
// concurrent use.
type Definitions struct {
	server *informertest.Server
	crds   *informertest.Collection[*apiextensionsv1.CustomResourceDefinition]

	mu     sync.Mutex         // protects the field below; while holding it, take only the server's own locks
	served map[string]*served // by the name of the definition

	emptying atomic.Pointer[string] // the definition whose objects are being deleted, under mu; nil if there is none
}

// Serve makes a server serve CustomResourceDefinitions. It panics if the server serves them already.
func Serve(server *informertest.Server) *Definitions {
	d := &Definitions{server: server, served: map[string]*served{}}
	converter, err := definitionConverter()
	if err != nil {
		panic(fmt.Sprintf("crds: the models of apiextensions-apiserver: %v", err))
	}
	d.crds = informertest.Register[*apiextensionsv1.CustomResourceDefinition](server, informertest.Resource{
		GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
		ClusterScoped:        true,
		TypeConverter:        converter,
		Hooks: informertest.Hooks{
			Decode: func(obj metav1.Object) ([]string, error) {
				setDefaults(obj.(*apiextensionsv1.CustomResourceDefinition))
				return nil, nil
			},
			Validate: func(obj, old metav1.Object, subresource string) field.ErrorList {
				before, _ := old.(*apiextensionsv1.CustomResourceDefinition)
				return validate(obj.(*apiextensionsv1.CustomResourceDefinition), before, subresource)
			},
			Delete:  func(obj metav1.Object) { terminate(obj.(*apiextensionsv1.CustomResourceDefinition)) },
			Changed: d.settle,
		},
	})
	return d
}

// InstallCRDs installs the definitions in files of YAML or JSON, which may contain several documents, and in the files
// of folders. It ignores documents of other kinds. It replaces a definition of the same name. It returns an error if a
// file cannot be read, or a definition is invalid or cannot be established; those before it stay.
func (d *Definitions) InstallCRDs(paths ...string) error {
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			definitions, err := read(file)
			if err == nil {
				err = d.Install(definitions...)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// Install installs definitions like [Definitions.InstallCRDs]. It does not keep them.
func (d *Definitions) Install(definitions ...*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range definitions {
		if err := d.install(crd.DeepCopy()); err != nil {
			return fmt.Errorf("definition %s: %w", crd.Name, err)
		}
	}
	return nil
}

func (d *Definitions) install(crd *apiextensionsv1.CustomResourceDefinition) error {
	key := informer.KeyOf(crd)
	old, exists := d.crds.Get(key)
	crd.Status, crd.ResourceVersion = apiextensionsv1.CustomResourceDefinitionStatus{}, ""
	if exists {
		crd.Status = *old.Status.DeepCopy()
		crd.UID, crd.ResourceVersion, crd.Generation = old.UID, old.ResourceVersion, old.Generation
		crd.CreationTimestamp, crd.DeletionTimestamp = old.CreationTimestamp, old.DeletionTimestamp
		crd.DeletionGracePeriodSeconds, crd.Finalizers = old.DeletionGracePeriodSeconds, slices.Clone(old.Finalizers)
	}
	setDefaults(crd)
	if errs := validate(crd, old, ""); len(errs) > 0 {
		kind := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition").GroupKind()
		return apierrors.NewInvalid(kind, crd.Name, errs)
	}
	var err error
	if exists {
		_, err = d.crds.Update(crd)
	} else {
		_, err = d.crds.Create(crd)
	}
	if err != nil {
		return err
	}
	d.settle(key)
	if crd, exists = d.crds.Get(key); !exists {
		return errors.New("deleted meanwhile")
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type != apiextensionsv1.Terminating && condition.Status != apiextensionsv1.ConditionTrue {
			return fmt.Errorf("%s is %s: %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	return nil
}

// filesOf returns the files that a path names: the path itself, or the YAML and JSON files of a folder.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	return files, nil
}

// read returns the definitions in a file.
func read(file string) (definitions []*apiextensionsv1.CustomResourceDefinition, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return definitions, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		if kind.Kind != "CustomResourceDefinition" {
			continue
		}
		if kind.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
			return nil, fmt.Errorf("a CustomResourceDefinition of %s: only %s is served", kind.APIVersion,
				apiextensionsv1.SchemeGroupVersion)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(document, crd); err != nil {
			return nil, err
		}
		definitions = append(definitions, crd)
	}
}

// setDefaults fills in the fields that a client may omit.
func setDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
}

// validate returns the errors in a definition. old is nil for a new one.
func validate(crd, old *apiextensionsv1.CustomResourceDefinition, subresource string) field.ErrorList {
	after, err := internal(crd)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	after.Status.StoredVersions = storedVersions(crd)
	if old == nil {
		return apiextensionsvalidation.ValidateCustomResourceDefinition(context.Background(), after)
	}
	before, err := internal(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if subresource == "status" {
		return validateStatus(after, before)
	}
	return apiextensionsvalidation.ValidateCustomResourceDefinitionUpdate(context.Background(), after, before)
}

// storedVersions returns the versions in which objects may be stored: those so far, and the one for storage.
func storedVersions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	versions := slices.Clone(crd.Status.StoredVersions)
	i := slices.IndexFunc(crd.Spec.Versions, isStored) // there is one if the definition is valid
	if i >= 0 && !slices.Contains(versions, crd.Spec.Versions[i].Name) {
		versions = append(versions, crd.Spec.Versions[i].Name)
	}
	return versions
}

func isStored(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }

// internal returns a definition in the version that the validation takes.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(),
		out, nil)
	return out, err
}
