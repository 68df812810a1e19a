package realapis

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type schema = apiextensionsv1.JSONSchemaProps

// sampler generates objects that are valid under a schema. Rules in CEL do not count.
type sampler struct {
	*rand.Rand
	validator validation.SchemaValidator
	all       bool    // set all properties, even those that exclude each other
	density   float64 // the probability of an optional property, from 0 to 1
	zero      float64 // the probability that a value is null, empty or zero, where that is valid
}

func newSampler(s *schema, random *rand.Rand) (*sampler, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, &internal, nil); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	return &sampler{Rand: random, validator: validator}, err
}

// objects returns up to n valid objects of a version. It gives up after many invalid ones. full are two with all
// properties, the second with zero values. They fit the types in the schema, but need not be valid.
func (r *sampler) objects(s *schema, apiVersion, kind string, n int) (objects, full []map[string]any) {
	sample := func() map[string]any {
		obj := r.value(s).(map[string]any)
		obj["apiVersion"], obj["kind"], obj["metadata"] = apiVersion, kind, r.metadata()
		return decoded(obj)
	}
	r.all, r.density, r.zero = true, 1, 0
	full = append(full, sample())
	r.zero = 1
	full = append(full, sample())
	r.all = false
	for try := 0; len(objects) < n && try < 50*n; try++ {
		r.density, r.zero = r.Float64()*r.Float64(), r.Float64()/2
		if obj := sample(); len(validation.ValidateCustomResource(field.NewPath(""), obj, r.validator)) == 0 {
			objects = append(objects, obj)
		}
	}
	return objects, full
}

// metadata returns the metadata of an object. Some have empty fields.
func (r *sampler) metadata() map[string]any {
	m := map[string]any{"name": "sample", "namespace": "default", "generation": 3}
	if r.Float64() < r.zero/8 {
		m["labels"] = map[string]any{}
	}
	return m
}

// decoded returns a value as encoding/json decodes it.
func decoded[T any](value T) (again T) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil {
		panic(err)
	}
	return again
}

func (r *sampler) isZero() bool { return r.Float64() < r.zero }

func (r *sampler) value(s *schema) any {
	switch {
	case s.Nullable && r.Float64() < r.zero/4:
		return nil
	case s.XIntOrString:
		return []any{"1500m", "8Gi", "17", "1000m", 5}[r.IntN(5)]
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(len(s.Enum))]
	}
	switch s.Type {
	case "string":
		return r.text(s)
	case "boolean":
		return !r.isZero() && r.IntN(2) == 0
	case "integer", "number":
		return r.number(s)
	case "array":
		list := []any{}
		for range r.length(s.MinItems, s.MaxItems) {
			if s.Items == nil || s.Items.Schema == nil {
				list = append(list, "anything")
				continue
			}
			list = append(list, r.value(s.Items.Schema))
		}
		return list
	}
	return r.object(s)
}

// length returns the length of a list or map.
func (r *sampler) length(least, most *int64) int {
	n := 1 + r.IntN(2)
	if r.isZero() {
		n = 0
	}
	if least != nil {
		n = max(n, int(*least))
	}
	if most != nil {
		n = min(n, int(*most))
	}
	return n
}

func (r *sampler) number(s *schema) any {
	least, most := 0.0, 1000.0
	if s.Minimum != nil {
		least = *s.Minimum
		most = max(most, least+10)
	}
	if s.Maximum != nil {
		most = *s.Maximum
	}
	switch n := least + r.Float64()*(most-least); {
	case r.isZero() && least <= 0:
		return 0
	case s.Type == "integer":
		return int64(n)
	default:
		return float64(int64(n*8)) / 8
	}
}

// formats are texts in the formats of strings.
var formats = map[string][]string{
	"date-time": {"2026-01-15T09:00:00Z", "2026-01-15T09:00:00.250Z"}, "date": {"2026-01-15"}, "byte": {"aGVsbG8="},
	"duration": {"1h"}, "uri": {"https://example.com/a"}, "hostname": {"example.com"}, "email": {"a@example.com"},
	"ipv4": {"10.0.0.1"}, "ipv6": {"fd00::1"}, "cidr": {"10.0.0.0/8"}, "uuid": {"0e984725-c51c-4bf4-9960-e1c80e27aba0"},
}

func (r *sampler) text(s *schema) string {
	if texts := formats[s.Format]; len(texts) > 0 {
		return texts[r.IntN(len(texts))]
	}
	text := fmt.Sprintf("text-%d", r.IntN(100))
	if empty, err := regexp.MatchString(s.Pattern, ""); r.isZero() && (empty || err != nil) {
		text = ""
	} else if s.Pattern != "" {
		if parsed, err := syntax.Parse(s.Pattern, syntax.Perl); err == nil {
			text = r.matching(parsed.Simplify())
		}
	}
	if s.MinLength != nil && len(text) < int(*s.MinLength) {
		text += strings.Repeat("a", int(*s.MinLength)-len(text))
	}
	return text
}

// matching returns a text that a regular expression matches, but for its assertions.
func (r *sampler) matching(re *syntax.Regexp) string {
	var text strings.Builder
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		first, i := re.Rune[0], r.IntN(len(re.Rune)/2)*2
		if re.Rune[i] <= ' ' || re.Rune[i] > '~' {
			return string(max(first, '0'))
		}
		return string(re.Rune[i] + rune(r.IntN(int(min(re.Rune[i+1], '~')-re.Rune[i])+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpAlternate:
		return r.matching(re.Sub[r.IntN(len(re.Sub))])
	case syntax.OpStar, syntax.OpQuest:
		if r.IntN(2) == 0 {
			return ""
		}
	}
	for _, sub := range re.Sub {
		text.WriteString(r.matching(sub))
	}
	return text.String()
}

func (r *sampler) object(s *schema) any {
	m := map[string]any{}
	if s.XEmbeddedResource {
		m["apiVersion"], m["kind"], m["metadata"] = "v1", "Pod", map[string]any{"name": "embedded"}
	}
	some, names := slices.Clone(s.Required), slices.Sorted(maps.Keys(s.Properties))
	choices := exclusive(s)
	switch {
	case r.all:
		some = names
	case len(choices) > 0:
		some = append(some, choices[r.IntN(len(choices))]...)
	}
	names = slices.Clone(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	isChoice := func(name string) bool {
		return slices.ContainsFunc(choices, func(c []string) bool { return slices.Contains(c, name) })
	}
	for _, name := range names {
		if r.Float64() < r.density && !isChoice(name) && !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	for _, name := range names {
		if s.MinProperties != nil && len(some) < int(*s.MinProperties) && !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	if !r.all && s.MaxProperties != nil && len(some) > int(*s.MaxProperties) && len(s.Properties) > 0 {
		some = some[:*s.MaxProperties]
	}
	for _, name := range some {
		if property, ok := s.Properties[name]; ok && m[name] == nil {
			m[name] = r.value(&property)
		}
	}
	switch {
	case len(s.Properties) > 0:
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		for i := range r.length(s.MinProperties, s.MaxProperties) {
			m[fmt.Sprintf("key-%d", i)] = r.value(s.AdditionalProperties.Schema)
		}
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		m["free"] = []any{1, "two", map[string]any{"three": 3.5}, nil}
	}
	return m
}

// exclusive returns the alternatives of a schema, each as a list of properties. An object may have only one of them.
func exclusive(s *schema) (choices [][]string) {
	for _, alternatives := range [][]schema{s.OneOf, s.AnyOf} {
		for i := range alternatives {
			if required := alternatives[i].Required; len(required) > 0 {
				choices = append(choices, required)
			}
		}
	}
	return choices
}
