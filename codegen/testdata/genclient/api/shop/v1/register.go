package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

const GroupName = "shop.example.com"

var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}
