// +groupName=one.example.com
package v1alpha1
