{{- define "writ.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "writ.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "writ.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "writ.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "writ.selector" -}}
app.kubernetes.io/name: {{ include "writ.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "writ.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "writ.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "writ.serviceAccount" -}}
{{- default (include "writ.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "writ.secret" -}}
{{- default (include "writ.fullname" .) .Values.secrets.existing -}}
{{- end -}}

{{/* The names of secrets that are given as files, as a JSON list. */}}
{{- define "writ.secretFiles" -}}
{{- $names := .Values.secrets.files -}}
{{- range $name, $_ := .Values.secrets.values -}}
{{- if not (has $name $.Values.secrets.env) -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "writ.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default (printf "v%s" .Chart.AppVersion) .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* writ.yaml: what the operator wrote, and what the pod decides. */}}
{{- define "writ.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $own := dict "state_dir" "/var/lib/writ/state" "listen" "0.0.0.0:8714" "drain" (printf "%ds" (int .Values.drainSeconds)) -}}
{{- $_ := set $config "server" (mergeOverwrite (default dict $config.server) $own) -}}
{{- $_ := set $config "sandbox" .Values.sandbox.level -}}
{{- toYaml $config -}}
{{- end -}}
