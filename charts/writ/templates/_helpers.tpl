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
{{- $own := dict "state_dir" "/var/lib/writ/state" "listen" "0.0.0.0:8714" "probes" "0.0.0.0:8716" "drain" (printf "%ds" (int .Values.drainSeconds)) -}}
{{- $_ := set $config "server" (mergeOverwrite (default dict $config.server) $own) -}}
{{- $_ := set $config "sandbox" .Values.sandbox.level -}}
{{- if eq .Values.sandbox.level "landlock" -}}
{{- $parts := dict "checks" (default dict $config.checks) -}}
{{- range $name, $builder := $config.builders -}}{{- $_ := set $parts (printf "builders.%s" $name) (default dict $builder) -}}{{- end -}}
{{- range $name, $part := $parts -}}
{{- if dig "loopback" false $part -}}
{{- fail (printf "config.%s.loopback: sandbox.level landlock has no loopback interface to give. Take it out, or choose bubblewrap." $name) -}}
{{- end -}}
{{- if dig "egress" (list) $part -}}
{{- fail (printf "config.%s.egress: sandbox.level landlock has no network namespace, so that nothing could hold a program to the gateway. Take it out, or choose bubblewrap." $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $world := $config.worlds -}}
{{- if dig "egress" (list) (default dict $world) -}}
{{- fail (printf "config.worlds.%s.egress: sandbox.level landlock has no network namespace, so that nothing could hold a program to the gateway. Take it out, or choose bubblewrap." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* What a running writ can't take over of its configuration: another one needs
     another pod. The keys are those of the reference. */}}
{{- define "writ.restart" -}}
{{- $config := include "writ.config" . | fromYaml -}}
{{- $picked := dict -}}
{{- range $key := (.Files.Get "files/config.json" | fromJson).restart -}}
{{- $at := $config -}}
{{- range splitList "." $key -}}
{{- if kindIs "map" $at -}}{{- $at = get $at . -}}{{- else -}}{{- $at = "" -}}{{- end -}}
{{- end -}}
{{- $_ := set $picked $key $at -}}
{{- end -}}
{{- range $name, $forge := $config.forges -}}
{{- if $forge -}}{{- $_ := set $picked (printf "forges.%s" $name) "on" -}}{{- end -}}
{{- end -}}
{{- toYaml $picked -}}
{{- end -}}

{{/* Bytes of 512KiB, as writ.yaml has it, and of 512Mi, as Kubernetes does. */}}
{{- define "writ.bytes" -}}
{{- $factors := dict "B" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) -}}
{{- mul (regexFind "^[0-9]+" (toString .) | int64) (get $factors (ternary $unit (trimSuffix "B" $unit) (eq $unit "B")) | default 1 | int64) -}}
{{- end -}}

{{/* The pod's memory: what all builds may use at once, and 2Gi for writ and git.
     Under bubblewrap /tmp, /dev/shm and the home directory are memory, too. */}}
{{- define "writ.memory" -}}
{{- $config := .Values.config -}}
{{- $default := (.Files.Get "files/config.json" | fromJson).defaults -}}
{{- $builds := dig "server" "builds" $default.builds $config | int64 -}}
{{- $memory := dig "limits" "memory" $default.memory $config -}}
{{- $tmp := dig "limits" "tmp" $default.tmp $config -}}
{{- $mounts := ternary 3 0 (eq .Values.sandbox.level "bubblewrap") -}}
{{- $least := add (mul $builds (add (include "writ.bytes" $memory | int64) (mul $mounts (include "writ.bytes" $tmp | int64)))) 2147483648 -}}
{{- $given := dig "limits" "memory" "" .Values.resources -}}
{{- if not $given -}}
{{- printf "%dMi" (div (add $least 1048575) 1048576) -}}
{{- else if lt (include "writ.bytes" $given | int64) $least -}}
{{- fail (printf "resources.limits.memory: %s is less than the %dMi of %d builds (config.server.builds) of %s (config.limits.memory) and %d × %s (config.limits.tmp) each, and 2Gi for writ: builds within their limits would get writ killed. Raise it or leave it out, or lower those." $given (div (add $least 1048575) 1048576) $builds $memory $mounts $tmp) -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}
