// +k8s:deepcopy-gen=package
// +groupName=shop.example.com

// Package v1 is an API.
package v1
