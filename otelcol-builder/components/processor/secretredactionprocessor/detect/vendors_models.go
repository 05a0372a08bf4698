package detect

// modelTokensTable are tokens of vendors of models, data sets and experiment tracking.
const modelTokensTable = `
openai_key sk-proj-{b16-} sk-svcacct-{b16-} sk-admin-{b16-} sk-None-{b16-} sk-{A20}T3BlbkFJ{A20} sk-{A48} sess-{A40}
anthropic_key sk-ant-api03-{b80-} sk-ant-admin01-{b80-} sk-ant-sid01-{b80-} sk-ant-oat01-{b80-} sk-ant-ort01-{b80-} sk-ant-{b16-}
huggingface_token hf_{A34-40} api_org_{A34} hf_oauth_{b40-} hf_jwt_{j40-}
replicate_token r8_{A37-40}
groq_key gsk_{A52}
xai_key xai-{A70-90}
perplexity_key pplx-{A40-60}
openrouter_key sk-or-v1-{h64} sk-or-{b40-}
deepseek_key sk-{h32}
fireworks_key fw_{A22-24} fpk_{A22-}
together_key tgp_v1_{b43}
cerebras_key csk-{a48}
nvidia_key nvapi-{b60-70} nvcf-{b40-}
elevenlabs_key sk_{h48}
voyage_key pa-{b43} al-{b43}
jina_key jina_{b50-70}
pinecone_key pcsk_{A4-}_{A50-}
langsmith_key lsv2_pt_{h32}_{h10} lsv2_sk_{h32}_{h10} ls__{h32}
langfuse_key sk-lf-{u36}
arize_key ak-{u36}-{b20-}
braintrust_key sk-bt-{A40-} bt-st-{A40-}
helicone_key sk-helicone-{b20-} pk-helicone-{b20-} sk-hel{b20-}
wandb_key wandb_v1_{b40-} local-{h40}
neptune_token eyJhcGlfYWRkcmVzcyI6{s40-}
kaggle_token KGAT_{h32}
modal_token ak-{A22} as-{A22} wk-{A22} ws-{A22}
runpod_key rpa_{A40-} rps_{A40-}
lambda_cloud_key secret_{w20-}.{A32}
anyscale_key esecret_{A30-} aph0_{b40-} ess_{A20-}
predibase_key pb_{b22}
friendli_token flp_{A40-}
tavily_key tvly-{A20-} tvly-dev-{A20-} tvly-prod-{A20-}
firecrawl_key fc-{h32}
browserbase_key bb_live_{b20-} bb_test_{b20-}
e2b_key e2b_{h40}
daytona_key dtn_{h64}
cartesia_key sk_car_{A20-}
runway_key key_{h128}
luma_key luma-{u36}-{u36}
apify_token apify_api_{A34-}
scale_key live_{h32} test_{h32}
gretel_key grt{u36} grtu{h64} grtp{h64}
cursor_key key_{h64} crsr_{h64}
sourcegraph_token sgp_{h40} sgp_{h16}_{h40} sgp_local_{h40} slk_{h64} sgd_{h64} sgs_{h32}
context7_key ctx7sk-{u36}
`
