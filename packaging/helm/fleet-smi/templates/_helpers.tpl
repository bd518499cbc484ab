{{/* Labels of an object; the argument is a list of the root and the component. */}}
{{- define "fleet-smi.labels" -}}
{{ include "fleet-smi.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "fleet-smi.selector" -}}
app.kubernetes.io/name: fleet-smi
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "fleet-smi.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# Not at every start: it would let the group write to the state, which the hub refuses.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "fleet-smi.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "fleet-smi.joinSecret" -}}
{{ .Values.joinToken.existingSecret | default (printf "%s-join" .Release.Name) }}
{{- end }}

{{- define "fleet-smi.hubUrl" -}}
{{- if .Values.agent.hubUrl -}}
{{ .Values.agent.hubUrl }}
{{- else if .Values.hub.enabled -}}
{{ ternary "https" "http" (ne .Values.hub.tlsSecret "") }}://{{ .Release.Name }}-hub.{{ .Release.Namespace }}.svc:7070
{{- else -}}
{{ fail "agent.hubUrl: name the hub, or set hub.enabled" }}
{{- end -}}
{{- end }}

{{/* Lets the hub accept the token in a secret; the argument is a list of the root, a role and flags. */}}
{{- define "fleet-smi.addToken" -}}
{{- $root := index . 0 -}}
- name: {{ index . 1 }}-token
  image: {{ $root.Values.hub.image | quote }}
  imagePullPolicy: {{ $root.Values.hub.imagePullPolicy }}
  args: [hub, token, add, --role, {{ index . 1 }}, --secret-file, /run/secrets/{{ index . 1 }}/token, --note, kubernetes{{ index . 2 }}]
  securityContext:
    {{- include "fleet-smi.containerSecurity" . | nindent 4 }}
  resources:
    {{- toYaml $root.Values.hub.resources | nindent 4 }}
  volumeMounts:
    - { name: state, mountPath: /var/lib/fleet-smi }
    - { name: {{ index . 1 }}-token, mountPath: /run/secrets/{{ index . 1 }}, readOnly: true }
{{- end }}
