package detect

// developmentTokens are tokens of source hosts, package registries, CI and developers' tools.
const developmentTokens = `
github_token ghp_{A36-251} gho_{A36-251} ghu_{A36-251} ghs_{A36-251} ghr_{A36-251} github_pat_{A22}_{A59} github_pat_{w36-} v1.{h40}
gitlab_token glpat-{j20-} gldt-{b20-} glrt-{j20-} glrtr-{j20-} glcbt-{w20-} glptt-{h40} glft-{b20-} glimt-{b25-} glagent-{b50-} gloas-{h64} glsoat-{b20-} glffct-{b20-} glwt-{b20-} GR1348941{b20}
gitlab_session _gitlab_session={h32}
bitbucket_token ATBB{A32} ATCTT3xFfG{s100-} BBDC-{B40-}
atlassian_token ATATT3xFfG{s100-} ATSTT3xFfG{s100-} ATOATT3xFfG{s100-}
npm_token npm_{A36}
pypi_token pypi-AgEIcHlwaS5vcmc{b50-} pypi-AgENdGVzdC5weXBpLm9yZ{b50-} pypi-{b80-}
rubygems_key rubygems_{h48}
nuget_key oy2{a43}
crates_token cio{A32}
clojars_token CLOJARS_{h60}
jfrog_token AKCp{A65-} cmVmdGtuOjAxO{s50-} AKC{A60-}
cloudsmith_key csa_{h40} ck_{h40}
anaconda_token an-{u36} an-{b40-} fl-{b60-} co-{b60-}
circleci_token CCIPAT_{A20-}_{h40} CCIPRJ_{A20-}_{h40}
buildkite_token bkua_{h40} bkct_{A40-} bkat_{h40} bkaj_{j40-} bkrt_{b40-} bkcq_{A30-}
sonar_token squ_{h40} sqp_{h40} sqa_{h40} sqb_{h40}
snyk_token snyk_uat.{b8}.{j20-} snyk_sat.{b8}.{j20-}
gitguardian_token ggtt-v-{b10-} ggat-{b20-}
sentry_token sntrys_eyJ{s50-} sntryu_{h64} sntrya_{h64} sntryi_{h64} sntrys_{s40-}
postman_key PMAK-{h24}-{h34} PMAT-{U26}
readme_key rdme_{a70}
stackhawk_key hawk.{b20}.{b20}
launchdarkly_key sdk-{u36} mob-{u36} api-{u36}
configcat_key configcat-sdk-1/{b22}/{b22}
statsig_key secret-{A40-}
unleash_token default:development.{h50-} default:production.{h50-}
growthbook_key secret_user_{s20-} secret_admin_{s20-} secret_readonly_{s20-}
linear_key lin_api_{A40} lin_oauth_{h64} lin_wh_{A40}
notion_token secret_{A43} ntn_{d11}{A35}
figma_token figd_{b40-} figdr_{b40-}
airtable_token pat{A14}.{h64}
asana_token 1/{d16}:{h32} 0/{h32} 2/{d10-}/{d10-}:{h32}
clickup_token pk_{d4-9}_{U32}
+zapier_hook hooks.zapier.com/hooks/catch/{d1-}/{A5-}
+ifttt_key maker.ifttt.com/trigger/{b1-}/with/key/{b20-}
retool_key retool_01{a20-}
pulumi_token pul-{h40}
percy_token web_{h64} auto_{h64} app_{h64} ss_{h64}
contentful_token CFPAT-{b43}
sanity_token sk{A178} sk{A80}
codesandbox_token csb_v1_{b43}
gitpod_token gitpod_pat_{j40-}
coder_token coder_{A10}-{A22}
teamcity_token eyJ0eXAiOiAiVENWMiJ9.{b36}.{b48}
octopus_key API-{U26-32}
harness_token pat.{b22}.{h24}.{A20} sat.{b22}.{h24}.{A20}
jenkins_token 11{h32}
dependency_track_key odt_{A32} odt_{A8}_{A32}
polar_token polar_pat_{A30-} polar_oat_{A30-}
scalingo_token tk-us-{b48}
authress_key sc_{a5-30}.{a4-6}.acc-{a10-32}.{s30-120} ext_{a5-30}.{a4-6}.acc-{a10-32}.{s30-120}
settlemint_token sm_pat_{A16} sm_aat_{A16} sm_sat_{A16}
`
