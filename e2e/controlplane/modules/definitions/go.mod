module equipoise.invalid/e2e/definitions

go 1.26.0

require (
	github.com/prometheus-operator/prometheus-operator v0.86.1
	k8s.io/autoscaler/vertical-pod-autoscaler v1.4.1
)
