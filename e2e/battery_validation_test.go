package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// invalidObjects are bodies by the path of their collection below the namespace, each with a name. The object of an update, a patch or a
// deletion has the name u, and the first one of a path that is called "valid" creates it. "of the cluster" means that the objects have no
// namespace.
const invalidObjects = `
/api/v1 pods
no containers: {"metadata":{"name":"a"},"spec":{}}
no image: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}
no name of a container: {"metadata":{"name":"a"},"spec":{"containers":[{"image":"i"}]}}
two containers of one name: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}}
a bad name of a container: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"C","image":"i"}]}}
a bad name: {"metadata":{"name":"A"},"spec":{"containers":[{"name":"c","image":"i"}]}}
a bad label: {"metadata":{"name":"a","labels":{"a b":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}
a bad value of a label: {"metadata":{"name":"a","labels":{"a":"b c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}
a bad annotation: {"metadata":{"name":"a","annotations":{"a b":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}
a bad finalizer: {"metadata":{"name":"a","finalizers":["a b"]},"spec":{"containers":[{"name":"c","image":"i"}]}}
an owner without a uid: {"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"b"}]},"spec":{"containers":[{"name":"c","image":"i"}]}}
a bad restartPolicy: {"metadata":{"name":"a"},"spec":{"restartPolicy":"Sometimes","containers":[{"name":"c","image":"i"}]}}
a bad port: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":70000}]}]}}
an unknown volume: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}
a nameless variable: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","env":[{"value":"v"}]}]}}
more requested than the limit: {"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}
valid: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"i"}],"tolerations":[{"key":"a","operator":"Exists"}]}}
update the image: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"}]}}
update with a toleration: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update with defaults: {"metadata":{"name":"u"},"spec":{"restartPolicy":"Always","schedulerName":"default-scheduler","containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update with defaults of a container: {"metadata":{"name":"u"},"spec":{"terminationGracePeriodSeconds":30,"securityContext":{},"containers":[{"name":"c","image":"j","imagePullPolicy":"Always","terminationMessagePolicy":"File"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update without the tolerations: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j"}]}}
update the node: {"metadata":{"name":"u"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update the command: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j","command":["x"]}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update with a container: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j"},{"name":"d","image":"i"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update with a deadline: {"metadata":{"name":"u"},"spec":{"activeDeadlineSeconds":10,"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update with a later deadline: {"metadata":{"name":"u"},"spec":{"activeDeadlineSeconds":20,"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}
update without the deadline: {"metadata":{"name":"u"},"spec":{"containers":[{"name":"c","image":"j"}],"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}

/apis/apps/v1 deployments
no selector: {"metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
an empty selector: {"metadata":{"name":"a"},"spec":{"selector":{},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
another selector: {"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"c"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
no containers: {"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{}}}}
negative replicas: {"metadata":{"name":"a"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
never restarted: {"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}
a bad strategy: {"metadata":{"name":"a"},"spec":{"strategy":{"type":"Sometimes"},"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
valid: {"metadata":{"name":"u"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
update the selector: {"metadata":{"name":"u"},"spec":{"selector":{"matchLabels":{"a":"c"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
update the image: {"metadata":{"name":"u"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"j"}]}}}}

/apis/apps/v1 statefulsets
negative replicas: {"metadata":{"name":"a"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
valid: {"metadata":{"name":"u"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
update the service: {"metadata":{"name":"u"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
update with its defaults: {"metadata":{"name":"u"},"spec":{"podManagementPolicy":"OrderedReady","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
update the policy: {"metadata":{"name":"u"},"spec":{"podManagementPolicy":"Parallel","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}

/apis/apps/v1 daemonsets
no selector: {"metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}

/api/v1 services
no ports: {"metadata":{"name":"a"},"spec":{}}
no ports, headless: {"metadata":{"name":"h"},"spec":{"clusterIP":"None"}}
a bad port: {"metadata":{"name":"a"},"spec":{"ports":[{"port":0}]}}
a bad protocol: {"metadata":{"name":"a"},"spec":{"ports":[{"port":1,"protocol":"X"}]}}
two nameless ports: {"metadata":{"name":"a"},"spec":{"ports":[{"port":1},{"port":2}]}}
two ports of a name: {"metadata":{"name":"a"},"spec":{"ports":[{"name":"p","port":1},{"name":"p","port":2}]}}
two equal ports: {"metadata":{"name":"a"},"spec":{"ports":[{"name":"p","port":1},{"name":"q","port":1}]}}
a bad name of a port: {"metadata":{"name":"a"},"spec":{"ports":[{"name":"P","port":1}]}}
a bad type: {"metadata":{"name":"a"},"spec":{"type":"X","ports":[{"port":1}]}}
an external one without a name: {"metadata":{"name":"a"},"spec":{"type":"ExternalName"}}
an external one: {"metadata":{"name":"e"},"spec":{"type":"ExternalName","externalName":"example.com"}}
a name that begins with a digit: {"metadata":{"name":"1a"},"spec":{"ports":[{"port":1}]}}
a bad address: {"metadata":{"name":"a"},"spec":{"clusterIP":"x","ports":[{"port":1}]}}
an empty targetPort: {"metadata":{"name":"t"},"spec":{"ports":[{"port":1,"targetPort":""}]}}
valid: {"metadata":{"name":"u"},"spec":{"clusterIP":"None"}}
update of a headless one: {"metadata":{"name":"u"},"spec":{}}

/api/v1 persistentvolumeclaims
empty: {"metadata":{"name":"a"},"spec":{}}
no access modes: {"metadata":{"name":"a"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}
a bad access mode: {"metadata":{"name":"a"},"spec":{"accessModes":["X"],"resources":{"requests":{"storage":"1Gi"}}}}
no size: {"metadata":{"name":"a"},"spec":{"accessModes":["ReadWriteOnce"]}}
no space: {"metadata":{"name":"a"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"0"}}}}
valid: {"metadata":{"name":"u"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}
update the access modes: {"metadata":{"name":"u"},"spec":{"accessModes":["ReadOnlyMany"],"resources":{"requests":{"storage":"1Gi"}}}}
update the size before it is bound: {"metadata":{"name":"u"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}
update with a volume: {"metadata":{"name":"u"},"spec":{"volumeName":"v","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}
update with another volume: {"metadata":{"name":"u"},"spec":{"volumeName":"w","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}
update the volumeMode: {"metadata":{"name":"u"},"spec":{"volumeName":"v","volumeMode":"Filesystem","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}

/api/v1 configmaps
a bad key: {"metadata":{"name":"a"},"data":{"a b":"c"}}
a key twice: {"metadata":{"name":"a"},"data":{"k":"c"},"binaryData":{"k":"YQ=="}}
valid: {"metadata":{"name":"u"},"immutable":true,"data":{"k":"v"}}
update an immutable one: {"metadata":{"name":"u"},"immutable":true,"data":{"k":"w"}}
update it to be mutable: {"metadata":{"name":"u"},"data":{"k":"v"}}
update its labels: {"metadata":{"name":"u","labels":{"a":"b"}},"immutable":true,"data":{"k":"v"}}

/api/v1 secrets
a bad key: {"metadata":{"name":"a"},"stringData":{"a b":"c"}}
TLS without keys: {"metadata":{"name":"a"},"type":"kubernetes.io/tls"}
docker without a config: {"metadata":{"name":"a"},"type":"kubernetes.io/dockerconfigjson"}
docker with a bad config: {"metadata":{"name":"a"},"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"x"}}
no password: {"metadata":{"name":"a"},"type":"kubernetes.io/basic-auth"}
no account: {"metadata":{"name":"a"},"type":"kubernetes.io/service-account-token"}
no SSH key: {"metadata":{"name":"a"},"type":"kubernetes.io/ssh-auth"}
valid: {"metadata":{"name":"u"},"stringData":{"k":"v"}}
update the type: {"metadata":{"name":"u"},"type":"example.com/t","stringData":{"k":"v"}}
update to be immutable: {"metadata":{"name":"u"},"immutable":true,"stringData":{"k":"v"}}
update an immutable one: {"metadata":{"name":"u"},"immutable":true,"stringData":{"k":"w"}}

/apis/autoscaling/v2 horizontalpodautoscalers
no target: {"metadata":{"name":"a"},"spec":{"maxReplicas":3}}
a target without a group: {"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}
a target of the core group: {"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"v1","kind":"Pod","name":"d"}}}
a ReplicationController: {"metadata":{"name":"c"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"ReplicationController","name":"d"}}}
a bad group: {"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"a/b/c","kind":"Deployment","name":"d"}}}
a bad target: {"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"a/b","name":"%"}}}
no maximum: {"metadata":{"name":"a"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
a negative maximum: {"metadata":{"name":"a"},"spec":{"maxReplicas":-1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
a minimum above the maximum: {"metadata":{"name":"a"},"spec":{"minReplicas":3,"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
a negative minimum: {"metadata":{"name":"a"},"spec":{"minReplicas":-1,"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
valid: {"metadata":{"name":"u"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
update the maximum: {"metadata":{"name":"u"},"spec":{"maxReplicas":4,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}
update without the group: {"metadata":{"name":"u"},"spec":{"maxReplicas":4,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}

/apis/batch/v1 jobs
always restarted: {"metadata":{"name":"a"},"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"c","image":"i"}]}}}}
no restartPolicy: {"metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}
negative completions: {"metadata":{"name":"a"},"spec":{"completions":-1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}
valid: {"metadata":{"name":"u"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}

/apis/batch/v1 cronjobs
a bad schedule: {"metadata":{"name":"a"},"spec":{"schedule":"x","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}
no schedule: {"metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}
no containers: {"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}}}
no restartPolicy: {"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}}}
negative completions: {"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"completions":-1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}

/apis/rbac.authorization.k8s.io/v1 rolebindings
no role: {"metadata":{"name":"a"},"subjects":[]}
a subject without a name: {"metadata":{"name":"a"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"User"}]}
a subject of an unknown kind: {"metadata":{"name":"a"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"X","name":"x"}]}
a subject of another group: {"metadata":{"name":"a"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"apiGroup":"foo","kind":"User","name":"x"},{"apiGroup":"foo","kind":"ServiceAccount","name":"A"}]}
a role of another group: {"metadata":{"name":"a"},"roleRef":{"apiGroup":"foo","kind":"Role","name":"r"}}
a bad role: {"metadata":{"name":"a"},"roleRef":{"kind":"Role","name":"a/b"}}
valid: {"metadata":{"name":"u"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}
update without the group: {"metadata":{"name":"u"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"a"}]}
update the role: {"metadata":{"name":"u"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}}

/apis/rbac.authorization.k8s.io/v1 roles
no verbs: {"metadata":{"name":"a"},"rules":[{"apiGroups":[""],"resources":["pods"]}]}
an empty rule: {"metadata":{"name":"a"},"rules":[{}]}
a URL and a resource: {"metadata":{"name":"a"},"rules":[{"apiGroups":[""],"resources":["pods"],"nonResourceURLs":["/x"],"verbs":["get"]}]}
a URL: {"metadata":{"name":"a"},"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}

/apis/policy/v1 poddisruptionbudgets
both bounds: {"metadata":{"name":"a"},"spec":{"minAvailable":1,"maxUnavailable":1,"selector":{"matchLabels":{"a":"b"}}}}
a bad bound: {"metadata":{"name":"a"},"spec":{"minAvailable":-1,"selector":{"matchLabels":{"a":"b"}}}}
valid: {"metadata":{"name":"u"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}
update without a version: {"metadata":{"name":"u"},"spec":{"minAvailable":2,"selector":{"matchLabels":{"a":"b"}}}}

/apis/coordination.k8s.io/v1 leases
valid: {"metadata":{"name":"u"},"spec":{}}
update without a version: {"metadata":{"name":"u"},"spec":{}}

/apis/networking.k8s.io/v1 ingresses
no rules: {"metadata":{"name":"a"},"spec":{}}

/apis/admissionregistration.k8s.io/v1 validatingwebhookconfigurations of the cluster
a short name: {"metadata":{"name":"a"},"webhooks":[{"name":"a","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no name: {"metadata":{"name":"a"},"webhooks":[{"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
two of one name: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]},{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad name of the configuration: {"metadata":{"name":"A b"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no side effects named: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
some side effects: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"Some","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no versions: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
unknown versions: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v2"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a version twice: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1","v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad version: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1","V 2"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no client: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
two clients: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://x.invalid","service":{"name":"s","namespace":"n"}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a URL without TLS: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"http://x.invalid"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no URL: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":":"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a URL without a host: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https:///a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a URL with a user: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://u:p@x.invalid"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a URL with a query: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://x.invalid?a=b#c"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a service without a name: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"","namespace":"n"}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a service without a namespace: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":""}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad port: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":"n","port":70000}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad path: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":"n","path":"/a//B b"}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a timeout that is too long: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"timeoutSeconds":31}]}
no timeout: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"timeoutSeconds":0}]}
a bad failurePolicy: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"failurePolicy":"X"}]}
a bad matchPolicy: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"matchPolicy":"X"}]}
a bad selector: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"X"}]}}]}
a bad selector of objects: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"objectSelector":{"matchLabels":{"a b":"c"}}}]}
a rule without operations: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad operation: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["X"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
all operations and another: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["*","CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a rule without groups: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
all groups and another: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["*","none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a rule without versions: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"resources":["nothings"]}]}]}
an empty version: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["","*"],"resources":["nothings"]}]}]}
a rule without resources: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"]}]}]}
an empty resource: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":[""]}]}]}
all resources and another: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["*","nothings"]}]}]}
everything and another: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["*/*","nothings"]}]}]}
all subresources and another: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings/*","nothings/scale"]}]}]}
a subresource of all and of one: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["*/scale","nothings/scale"]}]}]}
a bad scope: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"],"scope":"X"}]}]}
a condition that does not compile: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"matchConditions":[{"name":"c","expression":"("}]}]}
valid: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
update without a version: {"metadata":{"name":"u"},"webhooks":[]}
patch the timeout: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"timeoutSeconds":5}]}
patch to a service: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":"n","path":"/a/b","port":443}},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
patch to a bad timeout: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"timeoutSeconds":50}]}
delete: {}

/apis/admissionregistration.k8s.io/v1 mutatingwebhookconfigurations of the cluster
a short name: {"metadata":{"name":"a"},"webhooks":[{"name":"a","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no side effects named: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
no versions: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a URL without TLS: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"http://x.invalid"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a rule without operations: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
a bad reinvocationPolicy: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"reinvocationPolicy":"X"}]}
two of one name: {"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]},{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}]}]}
valid: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"]}],"reinvocationPolicy":"IfNeeded"}]}
patch to a bad scope: {"metadata":{"name":"u"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://webhook.invalid/a"},"rules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],"apiVersions":["v1"],"resources":["nothings"],"scope":"X"}]}]}
delete: {}

/api/v1 serviceaccounts
a bad name: {"metadata":{"name":"A"}}
`

// unchecked is the reason for the rules of kube-apiserver that informertest/cluster does not have.
const unchecked = "informertest/cluster does not check it"

// validatedOtherwise are the objects that informertest/cluster accepts, or refuses for other fields.
var validatedOtherwise = map[string]string{
	"pods, a bad finalizer":                                              "kube-apiserver reports it under two paths",
	"pods, a bad port":                                                   unchecked,
	"pods, an unknown volume":                                            unchecked,
	"pods, a nameless variable":                                          unchecked,
	"pods, more requested than the limit":                                unchecked,
	"deployments, a bad strategy":                                        unchecked,
	"services, a bad address":                                            unchecked,
	"cronjobs, a bad schedule":                                           unchecked,
	"poddisruptionbudgets, a bad bound":                                  unchecked,
	"ingresses, no rules":                                                unchecked,
	"validatingwebhookconfigurations, a service without a name":          "kube-apiserver takes the name for the namespace",
	"validatingwebhookconfigurations, a service without a namespace":     "kube-apiserver takes the name for the namespace",
	"validatingwebhookconfigurations, a condition that does not compile": unchecked,
}

// validationScript returns the script for invalidObjects.
func validationScript() string {
	var script strings.Builder
	for section := range strings.SplitSeq(strings.TrimSpace(invalidObjects), "\n\n") {
		head, lines, _ := strings.Cut(section, "\n")
		root, resource, _ := strings.Cut(head, " ")
		resource, ofCluster := strings.CutSuffix(resource, " of the cluster")
		if !ofCluster {
			root += "/namespaces/{namespace}"
		}
		for line := range strings.Lines(lines) {
			name, body, _ := strings.Cut(strings.TrimSpace(line), ": ")
			verb, object, as := "POST", "", ""
			switch first, _, _ := strings.Cut(name, " "); first {
			case "update":
				verb, object = "PUT", "/u"
			case "patch":
				verb, object, as = "PATCH", "/u", " as=merge"
			case "delete":
				verb, object = "DELETE", "/u"
			}
			fmt.Fprintf(&script, "%s, %s: %s %s/%s%s show=errors%s\n%s\n\n", resource, name, verb, root, resource, object, as, body)
		}
	}
	return script.String()
}

// TestSameValidationAsKubeAPIServer compares which objects of built-in kinds are refused, and which of their fields are wrong.
// Guarantees: W10
func TestSameValidationAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	converse(t, inProcess, validationScript(), validatedOtherwise)
}
