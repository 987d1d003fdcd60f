{{/* From the plugins that some profile has to the rights they need, by the table files/rights.yaml. */}}

{{- define "equipoise.pluginNames" -}}
{{- $names := list }}
{{- range . }}{{ $names = append $names .name }}{{ end }}
{{- $names | toJson }}
{{- end }}

{{/* Whether one profile has a plugin: dict "sets" the profile's plugin sets, "name", "plugin" its entry in the table. */}}
{{- define "equipoise.profileHas" -}}
{{- $everywhere := .sets.multiPoint | default dict }}
{{- $off := include "equipoise.pluginNames" $everywhere.disabled | fromJsonArray }}
{{- $on := include "equipoise.pluginNames" $everywhere.enabled | fromJsonArray }}
{{- $kept := and .plugin.default (not (has "*" $off)) (not (has .name $off)) }}
{{- $listed := or $kept (has .name $on) }}
{{- $found := false }}
{{- range .plugin.points }}
{{- $set := get $.sets . | default dict }}
{{- $off := include "equipoise.pluginNames" $set.disabled | fromJsonArray }}
{{- $on := include "equipoise.pluginNames" $set.enabled | fromJsonArray }}
{{- $joins := and $listed (not (has "*" $off)) (not (has $.name $off)) }}
{{- if or $joins (has $.name $on) }}{{ $found = true }}{{ end }}
{{- end }}
{{- if $found }}yes{{ end }}
{{- end }}

{{/* The plugins of the table that need their rights, as a JSON list. */}}
{{- define "equipoise.pluginsWithRights" -}}
{{- $rights := .Files.Get "files/rights.yaml" | fromYaml }}
{{- $config := include "equipoise.kubeSchedulerConfiguration" . | fromYaml }}
{{- $found := list }}
{{- range $name, $plugin := $rights.plugins }}
{{- if $.Values.existingConfigMap }}
{{- $numa := and $.Values.numa.enabled (eq $name "NodeResourceTopologyMatch") }}
{{- if or $plugin.default $numa (has $name $.Values.rbac.plugins) }}{{ $found = append $found $name }}{{ end }}
{{- else }}
{{- range $config.profiles }}
{{- $sets := .plugins | default dict }}
{{- if include "equipoise.profileHas" (dict "sets" $sets "name" $name "plugin" $plugin) }}{{ $found = append $found $name }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- $found | uniq | toJson }}
{{- end }}

{{- define "equipoise.servesLoopback" -}}
{{- if regexMatch "^(127\\.|::1$|localhost$)" (include "equipoise.equipoiseConfiguration" . | fromYaml).server.bindAddress }}yes{{ end }}
{{- end }}

{{/* Whether the serving port asks the API server about its callers; what a ConfigMap says that we cannot read, it may. */}}
{{- define "equipoise.protectsItsServer" -}}
{{- $server := (include "equipoise.equipoiseConfiguration" . | fromYaml).server }}
{{- if or .Values.existingConfigMap (not (include "equipoise.servesLoopback" .)) (eq ($server.protection | default "auto") "always") }}yes{{ end }}
{{- end }}

{{/* The rules of the cluster role: one per group for what is read, then what is written. */}}
{{- define "equipoise.rules" -}}
{{- $rights := .Files.Get "files/rights.yaml" | fromYaml }}
{{- $blocks := list $rights.always }}
{{- if include "equipoise.protectsItsServer" . }}{{ $blocks = append $blocks $rights.protectedServer }}{{ end }}
{{- range include "equipoise.pluginsWithRights" . | fromJsonArray }}
{{- $blocks = append $blocks (get $rights.plugins .) }}
{{- end }}
{{- $reads := dict }}
{{- $rules := list }}
{{- range $block := $blocks }}
{{- range $group, $resources := $block.reads }}
{{- $_ := set $reads $group (concat (get $reads $group | default list) $resources) }}
{{- end }}
{{- $rules = concat $rules ($block.rules | default list) }}
{{- end }}
{{- range $group := keys $reads | sortAlpha }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ get $reads $group | uniq | sortAlpha | join ", " }}]
  verbs: [list, watch]
{{- end }}
{{- range concat $rules .Values.rbac.extraRules }}
{{ list . | toYaml }}
{{- end }}
{{- end }}
