package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDataSize is the limit of the data of a ConfigMap or Secret in bytes.
const maxDataSize = 1 << 20

// validateService checks the type and the ports of a Service. An update without a clusterIP keeps the one before.
func validateService(service corev1.ServiceSpec, old metav1.Object) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	types := []corev1.ServiceType{"", corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort}
	if !slices.Contains(types, service.Type) {
		errs = append(errs, field.NotSupported(spec.Child("type"), service.Type, types[1:]))
	}
	external := service.Type == corev1.ServiceTypeExternalName
	if external && service.ExternalName == "" {
		errs = append(errs, field.Required(spec.Child("externalName"), ""))
	}
	clusterIP := service.ClusterIP
	if before, ok := old.(*corev1.Service); ok && clusterIP == "" && before.Spec.Type != corev1.ServiceTypeExternalName {
		clusterIP = before.Spec.ClusterIP
	}
	if len(service.Ports) == 0 && clusterIP != corev1.ClusterIPNone && !external {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	names, numbers := map[string]bool{}, map[corev1.ServicePort]bool{}
	for i, port := range service.Ports {
		path := spec.Child("ports").Index(i)
		switch {
		case port.Name == "" && len(service.Ports) > 1:
			errs = append(errs, field.Required(path.Child("name"), ""))
		case port.Name != "":
			for _, text := range validation.IsDNS1123Label(port.Name) {
				errs = append(errs, field.Invalid(path.Child("name"), port.Name, text))
			}
			if names[port.Name] {
				errs = append(errs, field.Duplicate(path.Child("name"), port.Name))
			}
		}
		names[port.Name] = true
		for _, text := range validation.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), port.Port, text))
		}
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP // the default
		}
		protocols := []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
		if !slices.Contains(protocols, port.Protocol) {
			errs = append(errs, field.NotSupported(path.Child("protocol"), port.Protocol, protocols))
		}
		target := port.TargetPort
		if target == intstr.FromInt32(0) || target == intstr.FromString("") {
			target = intstr.FromInt32(port.Port) // the default
		}
		texts := validation.IsValidPortName(target.StrVal)
		if target.Type == intstr.Int {
			texts = validation.IsValidPortNum(target.IntValue())
		}
		for _, text := range texts {
			errs = append(errs, field.Invalid(path.Child("targetPort"), target.String(), text))
		}
		number := corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}
		if numbers[number] {
			errs = append(errs, field.Duplicate(path, number))
		}
		numbers[number] = true
	}
	return errs
}

// validateClaim checks a PersistentVolumeClaim. Of an existing one, the volumeName and the storageClassName may be set once;
// the size and the volumeAttributesClassName of a bound one may change.
func validateClaim(claim *corev1.PersistentVolumeClaim, old metav1.Object) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if len(claim.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), "at least 1 access mode is required"))
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce,
		corev1.ReadWriteOncePod}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(modes, mode) {
			errs = append(errs, field.NotSupported(spec.Child("accessModes"), mode, modes))
		}
	}
	size, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	path := spec.Child("resources").Key(string(corev1.ResourceStorage))
	if !sized {
		errs = append(errs, field.Required(path, ""))
	} else if size.Sign() <= 0 {
		errs = append(errs, field.Invalid(path, size.String(), "must be greater than zero"))
	}
	before, _ := old.(*corev1.PersistentVolumeClaim)
	if before == nil {
		return errs
	}
	now := claim.Spec.DeepCopy()
	if before.Status.Phase == corev1.ClaimBound {
		delete(now.Resources.Requests, corev1.ResourceStorage)
		now.VolumeAttributesClassName = nil
	}
	if !unchanged(*now, before.Spec) {
		errs = append(errs, field.Forbidden(spec, "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims"))
	}
	wanted := before.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(wanted) < 0 && size.Cmp(before.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		errs = append(errs, field.Forbidden(spec.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	return errs
}

// validateKeys checks the names of the data of a ConfigMap or Secret.
func validateKeys[V any](data map[string]V, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		for _, text := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, text))
		}
	}
	return errs
}

// validateConfigData checks the data of a ConfigMap.
func validateConfigData(obj *corev1.ConfigMap) field.ErrorList {
	data := field.NewPath("data")
	errs := validateKeys(obj.Data, data)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(obj.Data)) {
		if _, both := obj.BinaryData[key]; both {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(obj.Data[key])
	}
	errs = append(errs, validateKeys(obj.BinaryData, field.NewPath("binaryData"))...)
	for _, value := range obj.BinaryData {
		size += len(value)
	}
	if size > maxDataSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxDataSize))
	}
	return errs
}

// validateSecretData checks the data of a Secret, which depend on its type.
func validateSecretData(obj *corev1.Secret) field.ErrorList {
	data := field.NewPath("data")
	errs := validateKeys(obj.Data, data)
	size := 0
	for _, value := range obj.Data {
		size += len(value)
	}
	if size > maxDataSize {
		errs = append(errs, field.TooLong(data, "", maxDataSize))
	}
	require := func(keys ...string) {
		for _, key := range keys {
			if _, ok := obj.Data[key]; !ok {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	requireJSON := func(key string) {
		require(key)
		if content, ok := obj.Data[key]; ok {
			if err := json.Unmarshal(content, &map[string]any{}); err != nil {
				errs = append(errs, field.Invalid(data.Key(key), "<secret contents redacted>", err.Error()))
			}
		}
	}
	switch obj.Type {
	case corev1.SecretTypeServiceAccountToken:
		if obj.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		requireJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		requireJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, name := obj.Data[corev1.BasicAuthUsernameKey]
		if _, password := obj.Data[corev1.BasicAuthPasswordKey]; !name && !password {
			require(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(obj.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

// validateCount checks a number that may not be negative. Nil is valid.
func validateCount(n *int32, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), path)
}
