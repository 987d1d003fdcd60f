{{/* What is allowed but seldom meant, as a YAML list. */}}
{{- define "equipoise.warnings" -}}
{{- $config := include "equipoise.kubeSchedulerConfiguration" . | fromYaml }}
{{- $election := $config.leaderElection }}
{{- $found := list }}
{{- if eq .Values.schedulerName "default-scheduler" }}
{{- $found = append $found "schedulerName is that of kube-scheduler: unless it is switched off, both place the same pods." }}
{{- end }}
{{- if lt (int .Values.replicaCount) 1 }}
{{- $found = append $found "replicaCount is 0: pods wait until the Deployment is scaled up." }}
{{- else if eq (int .Values.replicaCount) 1 }}
{{- $found = append $found "replicaCount is 1: while that replica is away, pods wait." }}
{{- else if gt (int .Values.replicaCount) 3 }}
{{- $found = append $found (printf "replicaCount is %d: one schedules, the others stand by; more than three gain nothing." (int .Values.replicaCount)) }}
{{- end }}
{{- if and $election.leaderElect (eq $election.resourceName "kube-scheduler") }}
{{- $found = append $found "the lease is named kube-scheduler: in kube-system that is the one of the default scheduler, and only one of the two would schedule." }}
{{- end }}
{{- if and .Values.existingConfigMap (or .Values.config .Values.equipoiseConfig .Values.pluginConfig .Values.plugins.enabled .Values.plugins.disabled) }}
{{- $found = append $found (printf "config, equipoiseConfig, plugins and pluginConfig have no effect: the configuration is in ConfigMap %s." .Values.existingConfigMap) }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- $found = append $found "serviceMonitor and podMonitor are both enabled: everything is scraped twice." }}
{{- end }}
{{- $open := has "/metrics" ((include "equipoise.equipoiseConfiguration" . | fromYaml).server.alwaysAllowPaths | default list) }}
{{- if and .Values.podMonitor.enabled (not .Values.podMonitor.authorization) (not $open) (include "equipoise.protectsItsServer" .) }}
{{- $found = append $found "podMonitor.authorization is empty: Prometheus sends no token, and /metrics answers with 403." }}
{{- end }}
{{- if (.Values.resources.limits | default dict).cpu }}
{{- $found = append $found "resources.limits.cpu: throttling delays the one thread that schedules." }}
{{- end }}
{{- $stop := int (dig "binding" "stopSeconds" 20 (.Values.equipoiseConfig | default dict)) }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add $stop 10 | int) }}
{{- $found = append $found (printf "terminationGracePeriodSeconds is %d: a stop may wait %d seconds for bindings and needs ten more to hand over." (int .Values.terminationGracePeriodSeconds) $stop) }}
{{- end }}
{{- if and .Values.hostNetwork (eq (int (include "equipoise.port" .)) 10259) }}
{{- $found = append $found "hostNetwork with port 10259: on control-plane nodes that port is kube-scheduler's; set equipoiseConfig.server.port." }}
{{- end }}
{{- if and (not .Values.existingConfigMap) (include "equipoise.servesLoopback" .) }}
{{- $found = append $found "equipoiseConfig.server.bindAddress is a loopback address: neither Prometheus nor probes get there, unless you give probes that do." }}
{{- end }}
{{- $config := include "equipoise.equipoiseConfiguration" . | fromYaml }}
{{- $called := or $config.webhooks (include "equipoise.kubeSchedulerConfiguration" . | fromYaml).extenders }}
{{- if and .Values.networkPolicy.enabled $called (not .Values.networkPolicy.extraEgress) }}
{{- $found = append $found "networkPolicy.extraEgress is empty: webhooks and extenders are reached only at the ports and addresses of the API server." }}
{{- end }}
{{- $numa := has "NodeResourceTopologyMatch" (include "equipoise.pluginNames" .Values.plugins.enabled | fromJsonArray) }}
{{- $defined := or .Values.crds.nodeResourceTopology.create (.Capabilities.APIVersions.Has "topology.node.k8s.io/v1alpha2") }}
{{- if and $numa (not $defined) }}
{{- $found = append $found "NodeResourceTopologyMatch is enabled, but the cluster has no NodeResourceTopology objects: install a topology updater, or set crds.nodeResourceTopology.create." }}
{{- end }}
{{- $gangs := has "Coscheduling" (include "equipoise.pluginsWithRights" . | fromJsonArray) }}
{{- $defined := or .Values.crds.podGroup.create (.Capabilities.APIVersions.Has "scheduling.x-k8s.io/v1alpha1") }}
{{- if and $gangs (not $defined) }}
{{- $found = append $found "Coscheduling is enabled, but the cluster has no PodGroups: pods that name one wait; set crds.podGroup.create." }}
{{- end }}
{{- $found | toYaml }}
{{- end }}
