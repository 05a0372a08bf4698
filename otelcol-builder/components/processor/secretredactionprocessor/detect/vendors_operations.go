package detect

// operationsTokens are tokens of monitoring and operations services, and formats used by many.
const operationsTokens = `
grafana_token glsa_{A32}_{x8} glc_{s32-} eyJrIjoi{s60-}
datadog_key ddapp_{A34-} ddpat_{A30-} pub{h32}
newrelic_key NRAK-{U27-32} NRII-{b32} NRJS-{h19} NRRA-{h42} NRAA-{h27} NRIQ-{b32} NRSP-{h2}{A4}{h31} NRBR-{h19} {h36}NRAL {A36}FFFFNRAL eu01xx{a30}NRAL
dynatrace_token dt0c01.{U24}.{U64} dt0s01.{U8}.{U64} dt0s02.{U8}.{U64} dt0s08.{U8}.{U64} dt0s16.{U8}.{U64} dt0s04.{U8}.{U64} dt0s06.{U8}.{U64}
honeycomb_key hcaik_{a58} hcxik_{a58} hcbik_{a58} hcamk_{a58} hcxmk_{a58} hcaic_{a58} hcxlk_{A20-}
logfire_token pylf_v1_us_{A43} pylf_v1_eu_{A43} pylf_v{d1}_{l2-}_{A43}
axiom_token xaat-{u36} xapt-{u36} xait-{u36}
elastic_key essu_{s60-}
elastic_reset AAEAAWVsYXN0aWM{s40-}
honeybadger_key hbp_{A36}
checkly_key cu_{h32} ca_{h32}
censys_key censys_{A8}_{A24-32}
intra42_key s-s4t2ud-{h64} s-s4t2af-{h64}
riot_key RGAPI-{u36}
thunderstore_token tss_{A38}
roblox_cookie _|WARNING:-DO-NOT-SHARE-THIS.--{p100-}
epic_key eg1~{j100-}
+infura_key infura.io/v3/{h32} infura.io/ws/v3/{h32}
+alchemy_key .alchemy.com/v2/{b32} .alchemyapi.io/v2/{b32}
+quicknode_key .quiknode.pro/{h40}
adafruit_key aio_{A28}
+thingsboard_token /api/v1/{A20}/telemetry /api/v1/{A20}/attributes
+blynk_token blynk-cloud.com/{b32}/ blynk.cloud/{b32}/
truenas_key 1-{A64}
kubernetes_service_account eyJhbGciOiJSUzI1NiIsImtpZCI6{j100-}
wakatime_key waka_{u36} waka_tok_{A80-}
bitcoin_private_key xprv{A107} yprv{A107} zprv{A107} tprv{A107}
nostr_key nsec1{a58}
json_web_token eyJ{b10-}.eyJ{b10-}.{b10-} eyJ{b10-}.eyJ{b10-}. eyJ{b10-}..{b10-}.{b10-}.{b10-} eyJ{b10-}.{b100-}.{b10-}.{b10-}.{b10-}
encoded_json_web_token ZXlK{s60-}
paseto_token v4.local.{j40-} v4.public.{j40-} v3.local.{j40-} v3.public.{j40-} v2.local.{j40-} v2.public.{j40-} v1.local.{j40-}
rails_session BAh7{B60-}--{h40} BAh7{B60-}=--{h40} BAh7{B60-}==--{h40} BAh7{B60-}--{h64} BAh7{B60-}=--{h64} BAh7{B60-}==--{h64}
basic_auth_header Basic%20{s12-}
`
