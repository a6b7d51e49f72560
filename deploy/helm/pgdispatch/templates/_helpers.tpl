{{- define "pgdispatch.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pgdispatch.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: replica
{{- end -}}

{{- define "pgdispatch.labels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pgdispatch.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* GOMEMLIMIT: a tenth below a limit of memory in Mi or Gi, which the schema requires. */}}
{{- define "pgdispatch.goMemory" -}}
{{- $mebibytes := regexFind "^[0-9]+" . | int -}}
{{- if hasSuffix "Gi" . }}{{ $mebibytes = mul $mebibytes 1024 }}{{ end -}}
{{- printf "%dMiB" (div (mul $mebibytes 9) 10) -}}
{{- end -}}

{{/* One variable from a Secret's key of the same name. */}}
{{- define "pgdispatch.fromSecret" -}}
- name: {{ .key }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end -}}

{{/* How probes speak to the admin port. */}}
{{- define "pgdispatch.scheme" -}}
{{- if .Values.admin.tls.secret }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "pgdispatch.check" -}}
{{- if and (not .Values.temporal.tls.enabled) (not .Values.temporal.allowInsecure) -}}
{{- fail "temporal.tls.enabled is false: set temporal.allowInsecure to true where you trust the network to Temporal, or leave TLS on" -}}
{{- end -}}
{{- if and .Values.temporal.tls.caKey (not .Values.ca.configMap) -}}
{{- fail "temporal.tls.caKey is a key of the ConfigMap that ca.configMap names: set that too" -}}
{{- end -}}
{{- end -}}
