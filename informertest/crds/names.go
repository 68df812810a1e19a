package crds

import (
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// taken are the names that other resources of a group use.
type taken struct {
	resources map[string]bool // plural, singular and short names
	kinds     map[string]bool // and kinds of lists
}

// accept returns the names of a definition that are accepted, and whether all of them are, as the condition
// NamesAccepted. Once accepted, a name stays accepted.
func (t taken) accept(want, had apiextensionsv1.CustomResourceDefinitionNames) (
	apiextensionsv1.CustomResourceDefinitionNames, apiextensionsv1.CustomResourceDefinitionCondition) {
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type:    apiextensionsv1.NamesAccepted,
		Status:  apiextensionsv1.ConditionTrue,
		Reason:  "NoConflicts",
		Message: "no conflicts found",
	}
	accepted := had
	accepted.Categories = want.Categories
	refuse := func(reason string, err error) {
		condition.Status, condition.Reason, condition.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
	}
	take := func(reason, want string, accepted *string, forbidden map[string]bool) {
		if want != *accepted && forbidden[want] {
			refuse(reason, inUse(want))
		} else {
			*accepted = want
		}
	}
	take("PluralConflict", want.Plural, &accepted.Plural, t.resources)
	take("SingularConflict", want.Singular, &accepted.Singular, t.resources)
	if err := t.fresh(want.ShortNames, had.ShortNames); err != nil {
		refuse("ShortNamesConflict", err)
	} else {
		accepted.ShortNames = want.ShortNames
	}
	take("KindConflict", want.Kind, &accepted.Kind, t.kinds)
	take("ListKindConflict", want.ListKind, &accepted.ListKind, t.kinds)
	return accepted, condition
}

// fresh returns an error that lists the short names that other resources use.
func (t taken) fresh(want, had []string) error {
	var errs []error
	for _, name := range want {
		if !slices.Contains(had, name) && t.resources[name] {
			errs = append(errs, inUse(name))
		}
	}
	return errors.Join(errs...)
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }
