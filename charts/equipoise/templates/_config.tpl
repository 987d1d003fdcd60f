{{/* The two documents of the configuration, as the values make them. */}}

{{- define "equipoise.kubeSchedulerConfiguration" -}}
{{- $profile := dict "schedulerName" .Values.schedulerName }}
{{- $enabled := .Values.plugins.enabled | default list }}
{{- $disabled := .Values.plugins.disabled | default list }}
{{- $args := .Values.pluginConfig | default list }}
{{- if .Values.numa.enabled }}
{{- $numa := "NodeResourceTopologyMatch" }}
{{- $off := include "equipoise.pluginNames" $disabled | fromJsonArray }}
{{- $on := include "equipoise.pluginNames" $enabled | fromJsonArray }}
{{- if not (or (has $numa $on) (has $numa $off) (has "*" $off)) }}
{{- $enabled = append $enabled (dict "name" $numa "weight" 5) }}
{{- $on = append $on $numa }}
{{- end }}
{{- $given := include "equipoise.pluginNames" $args | fromJsonArray }}
{{- if and (has $numa $on) (not (has $numa $given)) }}
{{- $args = append $args (dict "name" $numa "args" (dict "cacheResyncPeriodSeconds" 5)) }}
{{- end }}
{{- end }}
{{- if or $enabled $disabled }}
{{- $_ := set $profile "plugins" (dict "multiPoint" (dict "enabled" $enabled "disabled" $disabled)) }}
{{- end }}
{{- with $args }}
{{- $_ := set $profile "pluginConfig" . }}
{{- end }}
{{- $election := dict "leaderElect" .Values.leaderElection.enabled
      "leaseDuration" .Values.leaderElection.leaseDuration
      "renewDeadline" .Values.leaderElection.renewDeadline
      "retryPeriod" .Values.leaderElection.retryPeriod
      "resourceName" (.Values.leaderElection.resourceName | default (include "equipoise.fullname" .)) }}
{{- $document := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration"
      "leaderElection" $election "profiles" (list $profile) }}
{{- toYaml (mergeOverwrite $document (deepCopy .Values.config)) }}
{{- end }}

{{- define "equipoise.equipoiseConfiguration" -}}
{{- $server := dict "bindAddress" "0.0.0.0" "port" 10259 }}
{{- if .Values.tls.secretName }}
{{- $_ := set $server "tlsCertFile" "/etc/equipoise/tls/tls.crt" }}
{{- $_ := set $server "tlsPrivateKeyFile" "/etc/equipoise/tls/tls.key" }}
{{- end }}
{{- $document := dict "apiVersion" "equipoise.dev/v1alpha1" "kind" "EquipoiseConfiguration"
      "server" $server "logging" .Values.logging "batch" .Values.batch "devices" .Values.devices }}
{{- if .Values.recording.enabled }}
{{- $_ := set $document "recording" (dict "directory" "/var/lib/equipoise/recording"
      "maxBytes" (int64 .Values.recording.maxBytes)) }}
{{- end }}
{{- if include "equipoise.pluginsConfigMapName" . }}
{{- $_ := set $document "plugins" (dict "directory" "/etc/equipoise/plugins") }}
{{- end }}
{{- toYaml (mergeOverwrite (deepCopy $document) (deepCopy .Values.equipoiseConfig)) }}
{{- end }}

{{- define "equipoise.configMapName" -}}
{{- .Values.existingConfigMap | default (include "equipoise.fullname" .) }}
{{- end }}

{{/* Where plugins of the user's own are; empty if there are none. */}}
{{- define "equipoise.pluginsConfigMapName" -}}
{{- if .Values.pluginFiles }}
{{- printf "%s-plugins" (include "equipoise.fullname" .) }}
{{- else }}
{{- .Values.existingPluginsConfigMap }}
{{- end }}
{{- end }}

{{- define "equipoise.configFile" -}}
{{ include "equipoise.kubeSchedulerConfiguration" . }}
---
{{ include "equipoise.equipoiseConfiguration" . }}
{{- end }}

{{/* Another checksum makes other pods: replicas read their file when they start. */}}
{{- define "equipoise.configChecksum" -}}
{{- if .Values.existingConfigMap }}
{{- $existing := lookup "v1" "ConfigMap" (include "equipoise.namespace" .) .Values.existingConfigMap | default dict }}
{{- $existing.data | default dict | toJson | sha256sum }}
{{- else }}
{{- include "equipoise.configFile" . | sha256sum }}
{{- end }}
{{- end }}

{{- define "equipoise.pluginsChecksum" -}}
{{- if .Values.pluginFiles }}
{{- .Values.pluginFiles | toJson | sha256sum }}
{{- else }}
{{- $existing := lookup "v1" "ConfigMap" (include "equipoise.namespace" .) .Values.existingPluginsConfigMap | default dict }}
{{- $existing.data | default dict | toJson | sha256sum }}
{{- end }}
{{- end }}

{{- define "equipoise.port" -}}
{{- (include "equipoise.equipoiseConfiguration" . | fromYaml).server.port }}
{{- end }}

{{/* Combinations that no single value's schema can refuse. */}}
{{- define "equipoise.check" -}}
{{- $config := include "equipoise.kubeSchedulerConfiguration" . | fromYaml }}
{{- $names := list }}
{{- range $config.profiles }}{{ $names = append $names .schedulerName }}{{ end }}
{{- if and .Values.config.profiles (or .Values.plugins.enabled .Values.plugins.disabled .Values.pluginConfig) }}
{{- fail "plugins and pluginConfig shape the one profile that the chart makes: with config.profiles, put them there" }}
{{- end }}
{{- if not (has .Values.schedulerName $names) }}
{{- fail (printf "schedulerName is %q, but config.profiles has only: %s" .Values.schedulerName (join ", " $names)) }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) (not $config.leaderElection.leaderElect) }}
{{- fail (printf "replicaCount is %d, which needs leaderElection.enabled: without it all replicas schedule, and bind different pods to the same capacity" (int .Values.replicaCount)) }}
{{- end }}
{{- if eq (int (include "equipoise.port" .)) 0 }}
{{- fail "equipoiseConfig.server.port is 0: the probes need a port" }}
{{- end }}
{{- $own := include "equipoise.ownLabels" . | fromYaml }}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels }}
{{- range $label, $_ := $labels }}
{{- if hasKey $own $label }}
{{- fail (printf "%s: %s is one of the chart's own labels" $value $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.pluginFiles .Values.existingPluginsConfigMap }}
{{- fail "pluginFiles and existingPluginsConfigMap are two ways to say the same: give one of them" }}
{{- end }}
{{- if and .Values.rbac.plugins (not .Values.existingConfigMap) }}
{{- fail "rbac.plugins is for existingConfigMap: without one, rights follow the plugins of the configuration" }}
{{- end }}
{{- if and .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false: set serviceAccount.name; the account default would give the scheduler's rights to all pods of the namespace that name none" }}
{{- end }}
{{- $recording := (include "equipoise.equipoiseConfiguration" . | fromYaml).recording | default dict }}
{{- $segment := int64 ($recording.segmentBytes | default 33554432) }}
{{- if and .Values.recording.enabled (lt (int64 $recording.maxBytes) $segment) }}
{{- fail (printf "recording.maxBytes is %d: a recording needs room for a segment, %d bytes (equipoiseConfig.recording.segmentBytes)" (int64 $recording.maxBytes) $segment) }}
{{- end }}
{{- $rights := .Files.Get "files/rights.yaml" | fromYaml }}
{{- range .Values.rbac.plugins }}
{{- if not (hasKey $rights.plugins .) }}
{{- fail (printf "rbac.plugins: %q is no plugin that needs rights; these are: %s" . (keys $rights.plugins | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- end }}
