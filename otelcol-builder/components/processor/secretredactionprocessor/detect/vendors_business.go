package detect

// businessTokens are tokens of payment, shops, mail, CRM, identity and other business services.
const businessTokens = `
stripe_key sk_live_{A10-} sk_test_{A10-} rk_live_{A10-} rk_test_{A10-} sk_prod_{A10-} rk_prod_{A10-} pk_live_{A24-} sk_org_{A10-}
stripe_webhook whsec_{s24-}
square_token sq0csp-{b43} sq0atp-{b22} sq0idp-{b22} EAAA{b56-64}
paypal_token access_token$production${a16}${h32} access_token$sandbox${a16}${h32}
braintree_token sandbox_{a8}_{a16} production_{a8}_{a16}
plaid_token access-sandbox-{u36} access-development-{u36} access-production-{u36}
checkout_key sk_sbox_{a20-} sk_{u36} sk_test_{u36}
gocardless_token live_{b40} sandbox_{b40}
mollie_key live_{A30} test_{A30}
razorpay_key rzp_live_{A14-} rzp_test_{A14-}
paystack_key sk_live_{h40} sk_test_{h40}
flutterwave_key FLWSECK-{h32}-X FLWSECK_TEST-{h32}-X FLWSECK_TEST-{x12} FLWPUBK_TEST-{h32}-X FLWPUBK-{h32}-X FLWSECK_TEST{h12}
paddle_key pdl_live_apikey_{a26}_{A22}_{A3} pdl_sdbx_apikey_{a26}_{A22}_{A3} pdl_ntfset_{a26}_{s20-}
xendit_key xnd_development_{b30-} xnd_production_{b30-}
midtrans_key Mid-server-{b24} SB-Mid-server-{b24}
conekta_key key_{A22}
mercadopago_token APP_USR-{d10-}-{d6}-{h32}-{d5-} TEST-{d10-}-{d6}-{h32}-{d5-} APP_USR-{u36}
alchemy_key alcht_{A30}
easypost_key EZAK{A54} EZTK{A54}
shippo_token shippo_live_{h40} shippo_test_{h40}
lob_key live_{h35} test_{h35} live_pub_{h31} test_pub_{h31}
duffel_token duffel_test_{b43} duffel_live_{b43}
shopify_token shpat_{x32} shpss_{x32} shpca_{x32} shppa_{x32} shprt_{x32} shpua_{x32} shptka_{x32} atkn_{x32}
woocommerce_key ck_{h40} cs_{h40}
hubspot_token pat-na1-{u36} pat-eu1-{u36} pat-na2-{u36} pat-ap1-{u36} CiR{s60-}
salesforce_token 00D{A12}!{n80-120} 00D{A15}!{n80-120} 5Aep{n60-} 3MVG9{n60-}
intercom_token dG9rOj{s40-}
zoho_token 1000.{h32}.{h32} 1000.{U30-}
mailchimp_key {h32}-us{d1-2}
mailgun_key key-{h32} {h32}-{h8}-{h8} pubkey-{h32}
sendgrid_key SG.{b20-24}.{b39-50}
sendinblue_key xkeysib-{h64}-{A16} xsmtpsib-{h64}-{A16}
mandrill_key md-{A22}
mailersend_key mlsn.{h64}
resend_key re_{A8}_{A20-24}
klaviyo_key pk_{h34} pk_{A6}_{h34}
convertkit_key kit_{h32}
beamer_token b_{s44}
typeform_token tfp_{j40-}
calcom_key cal_live_{h32} cal_{h32}
okta_token SSWS{b42}
clerk_key sk_live_{A40-} sk_test_{A40-}
workos_key sk_live_{b40-} sk_test_{b40-} sk_a_{b40-}
stytch_secret secret-live-{s30-} secret-test-{s30-}
duo_key DI{U18}
persona_key persona_production_{A20-} persona_sandbox_{A20-}
onfido_token api_live.{A11}.{b32} api_sandbox.{A11}.{b32} api_live_us.{A11}.{b32} api_live_ca.{A11}.{b32}
ramp_key ramp_sec_{A48} ramp_id_{A40}
mercury_token secret-token:mercury_{w20-}
brex_token bxt_{A43}
dropbox_token sl.{b130-} sl.u.{b100-}
frameio_token fio-u-{s64}
adobe_key p8e-{a32} p8e-{h32}
mapbox_token sk.eyJ{b40-}.{b20-} pk.eyJ{b40-}.{b20-} tk.eyJ{b40-}.{b20-} sk.{A60}.{A22} pk.{A60}.{A22}
maxmind_key {A6}_{A29}_mmk
segment_key sgp_{A64}
posthog_key phx_{A40-} phc_{A40-} phs_{A40-}
branch_key key_live_{A32} key_test_{A32} secret_live_{A32} secret_test_{A32}
onesignal_key os_v2_app_{a100-} os_v2_org_{a100-}
rapyd_key rak_{U20} rsk_{h80-}
defined_networking_token dnkey-{A26}-{A52}
`
