package detect

// cloudTokens are tokens of clouds, hosts, networks and secret managers.
const cloudTokens = `
aws_access_key_id AKIA{U16} ASIA{U16} ABIA{U16} ACCA{U16} AROA{U16} AIDA{U16} AGPA{U16} AIPA{U16} ANPA{U16} ANVA{U16} APKA{U16} A3T{U17}
aws_bedrock_key ABSK{s40-} bedrock-api-key-{s40-}
aws_session_token FwoGZXIvYXdz{s100-} IQoJb3JpZ2lu{s100-} AQoDYXdz{s100-} FQoGZXIvYXdz{s100-}
aws_mws amzn.mws.{u36}
amazon_oauth amzn1.oa2-cs.v1.{h64} amzn1.application-oa2-client.{h32} Atza|{s100-} Atzr|{s100-} Atc|{s100-}
aws_appsync da2-{a26}
google_api_key AIza{b35}
google_oauth_secret GOCSPX-{b28}
google_access_token ya29.{j20-}
google_refresh_token 1//0{b40-}
+google_client_id {A32}.apps.googleusercontent.com
azure_client_secret {n3}8Q~{n31-34} {n3}7Q~{n31-34}
azure_storage_key {B76}+ASt{A8}== {B75}+AStA{B6}==
azure_function_key {b44}AzFu{b4}==
azure_devops_pat {A76}AZDO{A4}
azure_cognitive_key {A52}JQQJ99{A26}
azure_search_key {A42}AzSe{A6}
azure_cosmos_key {B76}ACDb{A6}==
azure_service_bus {B33}+ASb{B7}=
azure_event_hub {B33}+AEh{B7}=
azure_container_registry {B42}+ACR{A6}
azure_app_configuration Endpoint=https://{b1-}.azconfig.io;Id={p4-};Secret={B40-}=
digitalocean_token dop_v1_{h64} doo_v1_{h64} dor_v1_{h64}
digitalocean_spaces DO00{U16}
alibaba_access_key LTAI{A12-20}
tencent_secret_id AKID{A32}
yandex_cloud_token AQVN{b35-38} YCAJE{b20} YCM{b37} YCN{b37} YCO{b37} t1.{b10-}.{b86}
yandex_oauth y0_{b55} y1_{b55}
ibm_cloud_key ApiKey-{u36}
oracle_cloud_key ocid1.credential.oc1..{a40-}
cloudflare_token v1.0-{h24}-{h146} cfut_{A40} cfat_{A40} cfk_{A37}
flyio_token fo1_{w43} fm1_{s100-} fm1a_{s100-} fm1r_{s100-} fm2_{s100-} FlyV1_{s100-}
heroku_key HRKU-{b36-60} HRKU-{u36}
netlify_token nfp_{A36} nfc_{A36} nfo_{A36} nfu_{A36}
vercel_token vcp_{A24-} vck_{A24-} vca_{A24-} vci_{A24-} vcr_{A24-} vercel_blob_rw_{w20-}
render_token rnd_{A32}
supabase_key sbp_{h40} sbp_v0_{h40} sb_secret_{b22-} sbp_oauth_{h40}
planetscale_token pscale_tkn_{n32-64} pscale_pw_{n32-64} pscale_oauth_{n32-64} pscale_app_{n32-64}
neon_key napi_{a40-} npg_{A10-40}
scaleway_key SCW{U17}
linode_token linode_{h64}
exoscale_key EXO{h26}
vault_token hvs.{b24-} hvb.{b24-} hvr.{b24-} s.{A24} b.{b100-}
terraform_token {A14}.atlasv1.{b60-}
hcp_secret hcp.{A24-}
doppler_token dp.pt.{A40-44} dp.st.{A40-44} dp.st.{b2-35}.{A40-44} dp.ct.{A40-44} dp.sa.{A40-44} dp.scim.{A40-44} dp.audit.{A40-44} dp.said.{A40-44}
infisical_token st.{h24}.{h32}.{h32} st.{u36}.{h32}.{h32}
onepassword_token ops_eyJ{s100-} A3-{U6}-{U11}-{U5}-{U5}-{U5} A3-{U6}-{U6}-{U5}-{U5}-{U5}-{U5}
+anaconda_url anaconda.org/t/{b20-}/
age_secret_key AGE-SECRET-KEY-1{U58} AGE-PLUGIN-{U4-}-{U20-}
bitwarden_token 0.{u36}.{A30}:{s20-}
akeyless_token p-{A14}:{s40-}
tailscale_key tskey-auth-{A6-}-{A10-} tskey-api-{A6-}-{A10-} tskey-client-{A6-}-{A10-} tskey-scim-{A6-}-{A10-} tskey-webhook-{A6-}-{A10-} tskey-{A6-20}-{A16-}
ngrok_key cr_{A27}
kubernetes_bootstrap K10{h64}::{p10-}
rancher_token token-{a5}:{a54}
openshift_token sha256~{b43}
docker_token dckr_pat_{b27} dckr_oat_{b32}
docker_swarm SWMTKN-1-{a50}-{a25} SWMKEY-1-{B43}
databricks_token dapi{h32} dapi{h32}-{d1-2} dkea{h32} dose{h32}
snowflake_token ver:1-hint:{d1-}-ETMsDgAA{s100-}
confluent_key cflt{B60}
mongodb_atlas_secret mdb_sa_sk_{b40-}
aiven_token AVNS_{A19} aivenv1{s40-}
cockroach_key CCDB1_{A22}_{A40}
backblaze_key K00{A28}
cloudinary_url cloudinary://{d10-}:{b20-}@
imagekit_key private_{B26}=
akamai_token akab-{a16}-{a16} akaa-{a16}-{a16}
gcp_hmac_key GOOG1E{U55-57}
`
