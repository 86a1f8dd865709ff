"""The shapes of secrets that the detectors of detect-secrets do not know. Data."""

from __future__ import annotations

import re

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Secrets unknown to the detectors, as the services document them and as scanners such as gitleaks find them.
_KEYS = {
    "Anthropic API Key": r"sk-ant-[a-z0-9]{2,12}-(?=[\w-]{0,60}[0-9])[\w-]{20,}",
    "OpenAI API Key": r"sk-(?:proj|svcacct|admin)-(?=[\w-]{0,60}[0-9])[\w-]{20,}",
    "Google API Key": r"AIza[\w-]{35}",
    "Hugging Face Token": r"hf_[A-Za-z0-9]{30,}",
    "GitHub Token": r"github_pat_[A-Za-z0-9_]{22,}",
    "NPM Token": r"npm_[A-Za-z0-9]{36}",
    "Groq API Key": r"gsk_[A-Za-z0-9]{40,}",
    "Databricks Token": r"dapi[0-9a-f]{32}(?:-[0-9])?",
    "DigitalOcean Token": r"do[opr]_v1_[a-f0-9]{64}",
    "Vault Token": r"hv[sbr]\.(?=[\w-]{0,60}[0-9])[\w-]{24,}",
    "Shopify Token": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Linear API Key": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}",
    "age Secret Key": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    "Voyage Key": r"pa-(?=[\w-]{0,60}[0-9])(?=[\w-]*[A-Z])[A-Za-z0-9_-]{43}(?![\w-])",
    "Resend Key": r"re_[A-Za-z0-9]{6,10}_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}",
    "Firecrawl Key": r"fc-[0-9a-f]{32}(?![0-9a-f])",
    "Fireworks Key": r"fw_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{22,}",
    "Notion Secret": r"secret_(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{43}(?![A-Za-z0-9])",
    "Klaviyo Key": r"pk_[0-9a-f]{34}(?![0-9a-f])",
    "ElevenLabs Key": r"sk_[0-9a-f]{48}(?![0-9a-f])",
    "Infisical Token": r"st\.[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}",
    "Google Refresh Token": r"1//0(?=[\w-]{0,60}[0-9])[A-Za-z0-9_-]{50,}",
    "Cloudflare Origin Key": r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}",
    "Asana Token": r"2/[0-9]{16}/[0-9]{16}:[0-9a-f]{32}",
    "Firebase Key": r"AAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{120,}",
    "E2B Key": r"e2b_[0-9a-f]{40}",
    "Trigger.dev Key": r"tr_(?:prod|dev|stg)_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}",
    "Render Key": r"rnd_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{24,}",
    "Scaleway Key": r"SCW(?=[A-Z]*[0-9])[A-Z0-9]{17}(?![A-Za-z0-9])",
    "Tencent Key": r"AKID(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    "Bitbucket Password": r"ATBB(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    "Instagram Token": r"IGQ(?=[\w-]{0,60}[0-9])[A-Za-z0-9_-]{100,}",
    "Alibaba Key": r"LTAI(?=[A-Za-z]*[0-9])(?:[A-Za-z0-9]{8})?[A-Za-z0-9]{12}(?![A-Za-z0-9])",
    "Bedrock Key": r"(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{80,}={0,2}",
    "Cerebras Key": r"csk-(?=[a-z]*[0-9])[a-z0-9]{40,}",
    "Airtable Token": r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    "Trello Token": r"ATTA[0-9a-f]{72}",
    "Twitch Token": r"oauth:(?=[a-z]*[0-9])[a-z0-9]{30}(?![A-Za-z0-9])",
    "Matrix Token": r"syt_[A-Za-z0-9=]+_[A-Za-z0-9]{20}_[A-Za-z0-9]{6}",
    "LaunchDarkly Key": rf"(?:sdk|api)-{_UUID}",
    "Adyen Key": r"AQE[A-Za-z0-9+/]{60,}={0,2}-[A-Za-z0-9+/=]{30,}-[\w+/=]{10,}",
    "PostgreSQL Password": r"SCRAM-SHA-256\$[0-9]+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+",
    "Adafruit Key": r"aio_[a-zA-Z0-9]{28}",
    "Atlassian Token": r"ATATT3[A-Za-z0-9_=-]{100,}",
    "Clojars Token": r"CLOJARS_[a-z0-9]{60}",
    "Contentful Token": r"CFPAT-[A-Za-z0-9_-]{43}",
    "crates.io Token": r"cio(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    "Discord Webhook": r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[\w-]{60,}",
    "Docker Hub Token": r"dckr_pat_[A-Za-z0-9_-]{27,}",
    "Doppler Token": r"dp\.pt\.[a-zA-Z0-9]{40,44}",
    "Dynatrace Token": r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}",
    "EasyPost Key": r"EZAK[a-zA-Z0-9]{54}",
    "Figma Token": r"figd_[A-Za-z0-9_-]{38,}",
    "Flutterwave Key": r"FLWSECK(?:_TEST)?-[a-h0-9]{12,32}",
    "Fly.io Token": r"FlyV1 fm2_[A-Za-z0-9+/=,_-]{80,}",
    "Google OAuth Secret": r"GOCSPX-[A-Za-z0-9_-]{28}",
    "Google OAuth Token": r"ya29\.(?=[\w-]{0,60}[0-9])[A-Za-z0-9_-]{30,}",
    "Grafana Token": r"gl(?:sa|c)_[A-Za-z0-9+/]{32,}(?:_[a-f0-9]{8}|={0,2})",
    "Heroku Key": r"HRKU-[A-Za-z0-9_-]{36,}",
    "Infracost Token": r"ico-[a-zA-Z0-9]{32}",
    "JFrog Reference Token": r"cmVmdGtuOjAx[A-Za-z0-9]{52}",
    "LangSmith Key": r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
    "Mailgun Key": r"key-[a-f0-9]{32}",
    "Mapbox Token": r"[st]k\.eyJ[A-Za-z0-9_-]{50,}\.[A-Za-z0-9_-]{20,}",
    "Netlify Token": r"nfp_[A-Za-z0-9]{36,}",
    "New Relic Key": r"NRAK-[A-Z0-9]{27}",
    "Notion Token": r"ntn_[0-9]{11}[A-Za-z0-9]{35}",
    "NuGet Key": r"oy2[a-z0-9]{43}",
    "OpenRouter Key": r"sk-or-v1-[a-f0-9]{64}",
    "OpenShift Token": r"sha256~[A-Za-z0-9_-]{43}",
    "PayPal Token": r"access_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32}",
    "Perplexity Key": r"pplx-[A-Za-z0-9]{48}",
    "PlanetScale Token": r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}",
    "Postman Key": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "Prefect Token": r"pnu_[a-zA-Z0-9]{36}",
    "Pulumi Token": r"pul-[a-f0-9]{40}",
    "ReadMe Token": r"rdme_[a-z0-9]{70}",
    "Replicate Token": r"r8_(?=[\w-]{0,36}[0-9])(?=[\w-]{0,36}[A-Z])[\w-]{37}",
    "RubyGems Token": r"rubygems_[a-f0-9]{48}",
    "Sentry Token": r"sntry[su]_[A-Za-z0-9+/=_]{60,}",
    "Shippo Token": r"shippo_(?:live|test)_[A-Fa-f0-9]{40}",
    "Slack App Token": r"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{32,}",
    "Sonar Token": r"sq[apu]_[a-f0-9]{40}",
    "Square Token": (
        r"(?<![+/])(?:sq0atp-|EAAA)(?![\w-]{0,60}AAAA)(?=[\w-]{0,60}[0-9])(?=[0-9A-F]{0,60}[a-zG-Z_-])[\w-]{22,60}"
    ),
    "Stripe Webhook Secret": r"whsec_(?=[\w]*[0-9])[A-Za-z0-9]{32,}",
    "Supabase Token": r"sbp_[a-f0-9]{40}",
    "Teams Webhook": (
        r"webhook\.office\.com/webhookb2/[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}"
        r"/[0-9a-f-]{36}"
    ),
    "Typeform Token": r"tfp_(?=[\w.=-]{0,40}[0-9])[A-Za-z0-9_.=-]{40,59}",
    "xAI Key": r"xai-[A-Za-z0-9]{80}",
    "Yandex Key": r"AQVN[A-Za-z0-9_-]{35,38}",
    "1Password Token": r"ops_eyJ[A-Za-z0-9+/_=-]{200,}",
    "Alchemy Key": r"alchemy\.com/v2/[\w-]{32}",
    "Atlassian Access Token": r"ATCTT3[A-Za-z0-9_=-]{100,}",
    "Brevo Key": r"x(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}",
    "Buildkite Token": r"bkua_[a-z0-9]{40}",
    "CircleCI Token": r"CCIPAT_[A-Za-z0-9]+_[0-9a-f]{40}",
    "Cloudflare Token": r"cfut_[A-Za-z0-9_-]{40,}",
    "Docker Hub Organization Token": r"dckr_oat_[A-Za-z0-9_-]{27,}",
    "Doppler Service Token": r"dp\.(?:st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",
    "Dropbox Token": r"sl\.u\.[A-Za-z0-9_-]{100,}",
    "Fly.io Access Token": r"fm2_[A-Za-z0-9+/=,_-]{80,}",
    "GitLab Job Token": r"glcbt-[A-Za-z0-9]{1,5}_[A-Za-z0-9_-]{20}",
    "Google Auth Key": r"AQ\.Ab[A-Za-z0-9_-]{40,}",
    "Honeycomb Key": r"hcaik_[a-z0-9]{50,}",
    "HubSpot Token": rf"pat-(?:na|eu)[0-9]-{_UUID}",
    "Infura Key": r"infura\.io/(?:ws/)?v3/[0-9a-f]{32}",
    "Jina Key": r"jina_(?=[\w-]{0,60}[0-9])[A-Za-z0-9_-]{55,}",
    "Langfuse Key": rf"sk-lf-{_UUID}",
    "MWS Token": rf"amzn\.mws\.{_UUID}",
    "Neon Key": r"napi_[a-z0-9]{60,}",
    "New Relic Ingest Key": r"NRII-[A-Za-z0-9_-]{32}",
    "NVIDIA Key": r"nvapi-[A-Za-z0-9_-]{60,}",
    "Pinecone Key": r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}",
    "Plaid Token": rf"access-(?:production|development|sandbox)-{_UUID}",
    "Polar Token": r"polar_oat_[A-Za-z0-9]{40,}",
    "PostHog Key": r"phx_[A-Za-z0-9]{40,}",
    "Slack Client Token": r"xox[cd]-(?=[\w%-]{0,60}[0-9])[A-Za-z0-9%/+=-]{50,}",
    "Slack Trigger": r"hooks\.slack\.com/triggers/[A-Z0-9]{8,}/[0-9]{10,}/[0-9a-f]{32}",
    "Sourcegraph Token": r"sgp_(?:[0-9A-Fa-f]{16}_|local_)?[0-9A-Fa-f]{40}",
    "Stripe Organization Key": r"sk_org_live_[A-Za-z0-9]{40,}",
    "Supabase Secret Key": r"sb_secret_[A-Za-z0-9_-]{24,}",
    "Tailscale Key": r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]+-[A-Za-z0-9]{20,}",
    "Tavily Key": r"tvly-(?:dev-|prod-)?[A-Za-z0-9-]{30,}",
    "Together Key": r"tgp_v1_[A-Za-z0-9_-]{40,}",
    "Unkey Key": r"unkey_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{22,}",
    "Vercel Token": r"vcp_[A-Za-z0-9]{40,}",
    "Vercel Blob Token": r"vercel_blob_rw_[A-Za-z0-9]{16}_[A-Za-z0-9]{30,}",
    "Base64 Token": r"ZXlKaGJHY2lPaUp[A-Za-z0-9+/]{50,}={0,2}",
    "Docker Auth In Base64": r"eyJhdXRocyI6[A-Za-z0-9+/]{20,}={0,2}",
    "Inngest Key": r"signkey-(?:prod|test|branch)-[0-9a-f]{32,}",
    "Novita Key": r"sk_(?=[\w-]{0,60}[0-9])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{43}(?![\w-])",
    "RunPod Key": r"rpa_[A-Z0-9]{40}[a-z0-9]{4,6}",
    "Slack Workflow": r"hooks\.slack\.com/workflows/[A-Z0-9]{8,}/[A-Z0-9]{8,}/[0-9]{15,}/[A-Za-z0-9]{24}",
    "Stripe Test Key": r"[rs]k_(?:test|prod)_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{24,}",
    "Weights & Biases Key": r"wandb_v1_[A-Za-z0-9_-]{60,}",
    "GitLab Token": r"glffct-[\w-]{20}",
    "GitLab Session": r"_gitlab_session=[0-9a-z]{32}",
    "Hugging Face Organization Token": r"api_org_[A-Za-z]{34}",
    "Deno Token": r"dd[pow]_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{36,40}",
    "Aiven Password": r"AVNS_(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{19}(?![\w-])",
    "WakaTime Key": rf"waka_{_UUID}",
    "Octopus Deploy Key": r"API-(?=[A-Z]*[0-9])(?=[0-9]*[A-Z])[A-Z0-9]{26}(?![A-Za-z0-9])",
    "Settlemint Token": r"sm_(?:aat|pat|sat)_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16}",
    "Tinybird Token": r"p\.eyJ1IjogIj[\w-]{60,}\.[\w-]{40,}",
    "ClickUp Token": r"pk_[0-9]{7,9}_[A-Z0-9]{32}",
    "Intra42 Secret": r"s-s4t2(?:ud|af)-[0-9a-f]{64}",
    "Frame.io Token": r"fio-u-[\w=-]{64}",
    "Harness Token": r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    "Scalingo Token": r"tk-us-(?=[\w-]{0,60}[0-9])[\w-]{48}",
    "Defined Networking Token": r"dnkey-[\w=-]{26}-[\w=-]{52}",
    "Adobe Secret": r"p8e-(?=[a-z]*[0-9])[a-z0-9]{32}(?![a-z0-9])",
    "Cursor Key": r"key_[0-9a-f]{64}",
    "Confluent Secret": r"cflt(?=[A-Za-z+/]*[0-9])[A-Za-z0-9+/]{60}",
    "Slack Refresh Token": r"xoxe-[0-9]-[A-Za-z0-9]{140,}",
    "Stytch Secret": r"secret-live-(?=[\w-]{0,60}[0-9])[\w-]{36}",
    "Convex Deploy Key": r"(?:prod|dev|preview|project):[a-z0-9:-]+\|[A-Za-z0-9+/=_-]{50,}",
    "Svix Token": r"(?:test)?sk_[\w-]{32}\.(?:eu|us|in)\b",
    "Miro Token": r"eyJtaXJvLm9yaWdpbiI6[\w-]{20,}",
    "Hexadecimal Key": r"(?:cu|ls_|slk|rootly|crsr|ek|shpua|depot_project)_[0-9a-f]{32,}(?![0-9a-z])",
    "Databricks Secret": r"(?:dose|dkea)[0-9a-f]{32}(?![0-9a-z])",
    "Axiom Token": rf"xa[ap]t-{_UUID}",
    "Riot Key": rf"RGAPI-{_UUID}",
    "Bitwarden Token": rf"0\.{_UUID}\.[A-Za-z0-9]{{30}}:[A-Za-z0-9+/]{{22}}==",
    "Lob Key": r"test_[0-9a-f]{35}(?![0-9a-z])",
    "Telnyx Key": r"KEY[0-9A-Z]{32}_[A-Za-z0-9]{22}",
    "CockroachDB Key": r"CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}",
    "OneSignal Key": r"os_v2_(?:app|org)_[a-z2-7]{100,}",
    "eBay Key": r"PRD-[0-9a-f]{12}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}(?![0-9a-f])",
    "1Password Secret Key": (
        r"A3-(?=[A-Z-]*[0-9])[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"
    ),
    "Wix Key": r"IST\.eyJ[\w-]{100,}\.[\w-]+\.[\w-]+",
    "Yandex Token": r"t1\.[A-Za-z0-9_-]{20,}={0,2}\.[A-Za-z0-9_-]{86}={0,2}",
    "Grafana API Key": r"eyJrIjoi[A-Za-z0-9]{60,}={0,2}",
    "Zep Key": r"z_1dWlkIjoi[A-Za-z0-9]{40,}\.[\w-]+",
    "Baidu Key": r"bce-v3/ALTAK-[A-Za-z0-9]{21}/[0-9a-f]{40}",
    "Volcengine Key": r"AKLT(?=[A-Za-z]*[0-9])[A-Za-z0-9]{40,}",
    "JetBrains Token": r"perm[:-][A-Za-z0-9]+={0,2}\.[A-Za-z0-9-]+={0,2}\.[A-Za-z0-9]{24,}",
    "Elastic Token": r"essu_[A-Za-z0-9+/]{40,}={0,2}",
    "Snyk Token": r"snyk_(?:uat|sat)\.[0-9a-f]{8}\.[\w-]{60,}",
    "Socket Token": r"sktsec_[\w-]{40,}_api",
    "dbt Token": r"dbt[cus]_(?=[\w-]{0,60}[0-9])[\w-]{40,}",
    "Figma OAuth Token": r"figo_[A-Za-z0-9_-]{38,}",
    "Hugging Face OAuth Token": r"hf_oauth_[\w-]{38,}",
    "PagerDuty Token": r"pdus\+_[\w-]{28,}",
    "Authress Key": (
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,}"
    ),
    "EasyPost Test Key": r"EZTK[a-zA-Z0-9]{54}",
    "Razorpay Key": r"rzp_live_[A-Za-z0-9]{14}(?![A-Za-z0-9])",
    "Mandrill Key": r"md-(?=[\w-]{0,60}[0-9])(?=[a-z0-9_-]*[A-Z])(?=[A-Z0-9_-]*[a-z])[\w-]{22}(?![\w-])",
    "Modal Token": r"a[ks]-(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{22}(?![\w-])",
    "Lichess Token": r"lip_(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{20}(?![A-Za-z0-9])",
    "Artifactory Key": r"AKCp[A-Za-z0-9]{69}",
    "ClickHouse Key": r"4b1d(?=[0-9]*[A-Za-z])[A-Za-z0-9]{38}(?![A-Za-z0-9])",
    "Fly.io Session": r"fo1_(?=[\w-]{0,60}[0-9])[\w-]{43}",
    "Minisign Key": r"RWR(?:TY0Iy|CS)[A-Za-z0-9+/]{130,}={0,2}",
    "Wallet Key": r"[t-z]prv[1-9A-HJ-NP-Za-km-z]{100,110}(?![A-Za-z0-9])",
    "AppSync Key": r"da2-(?=[a-z]*[0-9])[a-z0-9]{26}(?![a-z0-9])",
    "Dependency-Track Key": r"odt_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32,}",
    "Flexport Token": r"shltm_(?=[\w-]{0,60}[0-9])[\w-]{40}",
    "IFTTT Key": r"maker\.ifttt\.com/trigger/\w+/(?:json/)?with/key/(?=[A-Za-z_-]{0,60}[0-9])[\w-]{20,}",
    "Ionic Token": r"ion_(?=[a-z]*[0-9])[a-z0-9]{42}(?![a-z0-9])",
    "New Relic Admin Key": r"NRAA-[0-9a-f]{27}(?![\w-])",
    "New Relic Browser Key": r"NRJS-[0-9a-f]{19}(?![\w-])",
    "New Relic Query Key": r"NRIQ-[\w-]{32}(?![\w-])",
    "New Relic REST Key": r"NRRA-[0-9a-f]{42}(?![\w-])",
    "Outlook Webhook": (
        r"outlook\.office(?:365)?\.com/webhook/[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}"
        r"/[0-9a-f-]{36}"
    ),
    "PyPI Token": r"pypi-AgE[\w-]{50,}",
    "Salesforce Token": r"00[A-Za-z0-9]{13}![\w.]{80,}",
    "StackHawk Key": r"hawk\.[\w-]{20}\.[\w-]{20}(?![\w-])",
    "TeamCity Token": r"eyJ0eXAiOiAiVENWMiJ9\.[\w-]{36}\.[\w-]{48}",
    "Ubidots Key": r"BBFF-(?=[A-Za-z]*[0-9])[A-Za-z0-9]{30}",
    "Voiceflow Key": r"VF\.(?:(?:DM|WS)\.)?[0-9a-f]{24}\.[A-Za-z0-9]{16}",
    "Zapier Webhook": r"hooks\.zapier\.com/hooks/catch/[0-9]+/[a-z0-9]{5,}",
    "Zoho Token": r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}",
    "Nightfall Key": r"NF-(?=[A-Za-z]*[0-9])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{32}(?![\w-])",
}
# What is at random: digits among letters of both cases, one of them before a lower case, and no long word.
_RANDOM = (
    r"(?=[A-Za-z]*[0-9]+[A-Za-z]+[0-9])(?=[a-z0-9]*[A-Z][a-z0-9]*[A-Z])(?=[A-Za-z0-9]*[0-9][a-z])"
    r"(?![A-Za-z0-9]*[a-z]{10})"
)
# What is before a key in a line. Without it each letter of data in base64 may begin one of 56 letters, and
# google-re2 makes a state for each set of beginnings: 3 s for 1 MB of proteins.
_BEGINS = r"(?:\b|\\[nrt]|%[0-9a-f]{2})"
_WORDS = "(?:sk|secret|secret-token|token|live|prod|production|apikey)"
# Those that begin with no mark of their own, or are secrets only in some lines: a pattern that the line must
# match (ignoring case), and the secret's own.
_KEYS_IN_LINES = {
    "AWS Secret Key": (
        r"aws_secret_access_key ?= ?[a-z0-9/+]{40}",
        (
            r"(?i:(?<=aws_secret_access_key=)|(?<=aws_secret_access_key = ))"
            r"(?=[A-Za-z/+]*[0-9])(?![A-Za-z0-9/+]*EXAMPLE)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
        ),
    ),
    "Authorization Header": (
        r"authorization.{1,6}(?:bearer|basic|token|ssws|splunk|geniekey)\s+[\w.~+/=-]{20}",
        (
            r"(?i:(?<=bearer )|(?<=basic )|(?<=token )|(?<=ssws )|(?<=splunk )|(?<=geniekey ))"
            r"(?=[\w.~+/=-]*[0-9])[\w.~+/=-]{20,}"
        ),
    ),
    "Docker Auth": (
        r"\"auth\"\s*:\s*\"[a-z0-9+/]{20}",
        r"(?:(?<=\"auth\":\")|(?<=\"auth\": \")|(?<=\"auth\" : \"))[A-Za-z0-9+/]{20,}={0,2}(?=\")",
    ),
    "Telegram Bot Token": (
        r"(?:telegram|bot).{0,40}[0-9]{8,10}:[a-z0-9_-]{35}|[0-9]:(?-i:AA)[a-z0-9_-]{33}",
        r"(?:bot)?[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![\w-])",
    ),
    # The keys of new services: a word or several, and what is at random.
    "Prefixed Key": (
        r"[_-][a-z0-9]{28}",
        (
            r"(?<!-)(?!sha[0-9]|md5|diff-|pk_|phc_|(?:[a-z]+_)?pub)[a-z][a-z0-9]{1,9}(?:[_-]{1,2}[a-z0-9]{1,12}){0,3}[_-]"
            rf"{_RANDOM}[A-Za-z0-9]{{28,128}}(?![\w/+=-])"
        ),
    ),
    "Named Key": (
        rf"{_WORDS}[_:-](?:[\w-]{{27}}|[0-9a-f]{{8}}-)",
        (
            rf"(?<!-)(?:[a-z0-9]{{1,12}}[_-]){{0,3}}{_WORDS}[_:-]"
            rf"(?:(?:[a-z0-9]{{1,12}}[_-]){{0,3}}(?:[0-9a-f]{{32,}}|{_UUID})(?![\w-])|(?=[\w-]{{27,256}}(?![\w-]))"
            r"(?=[A-Za-z_-]*[0-9][a-z0-9_-]*[A-Z])(?=[a-z0-9_-]*[A-Z][A-Za-z_-]*[0-9])[\w-]+)"
        ),
    ),
    "Facebook Token": (
        rf"{_BEGINS}eaa[a-z0-9]{{90}}",
        r"(?<![+/])EAA(?=[A-Za-z]*[0-9])[A-Za-z0-9]{90,}",
    ),
    "Sanity Token": (
        rf"{_BEGINS}sk[a-z0-9]{{160}}",
        r"(?<![+/])sk(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{160,}",
    ),
    "Helicone Key": (r"sk-helicone-", r"sk-helicone-[a-z0-9]{7}(?:-[a-z0-9]{7}){3}"),
    "Context7 Key": (r"ctx7sk-", rf"ctx7sk-{_UUID}"),
    "Facebook App Token": (r"[0-9]{15}\|", r"[0-9]{15,16}\|(?=[\w-]{0,60}[0-9])[\w-]{27,40}(?![\w-])"),
    "Zhipu Key": (r"[0-9a-f]{12}\.[a-z0-9]{16}", rf"[0-9a-f]{{32}}\.{_RANDOM}[A-Za-z0-9]{{16}}(?![\w.-])"),
    "NATS Seed": (
        rf"{_BEGINS}(?-i:S[UAOCNX][A-Z2-7]{{56}})",
        r"S[UAOCNX](?=[A-Z]*[2-7])[A-Z2-7]{56}(?![A-Z0-9])",
    ),
    "Twilio Key": (
        r"(?-i:(?:SK|AC)[0-9A-Fa-f]{32})",
        r"(?:SK|AC)(?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{32}(?![A-Za-z0-9])",
    ),
    "Vault Service Token": (r"\bs\.[a-z0-9]{24}", rf"s\.{_RANDOM}[A-Za-z0-9]{{24}}(?![\w.(])"),
    "Dropbox Short Token": (r"\bsl\.[a-z0-9_-]{130}", r"sl\.(?=[\w-]{0,60}[0-9])[\w-]{130,}"),
    "Ably Key": (
        r"\.[\w-]{6}:[\w-]{43}",
        r"[\w-]{6}\.[\w-]{6}:(?=[\w-]{0,60}[0-9])(?=[\w-]*[A-Z])[\w-]{43}(?![\w-])",
    ),
    "LLM Key": (r"sk-[a-z0-9]{32}", r"sk-(?:[0-9a-f]{32}|(?=[A-Za-z]*[0-9])[A-Za-z0-9]{48})(?![A-Za-z0-9])"),
    "Payment Key": (
        r"\b(?:live_|duffel_(?:live|test)_)[a-z0-9_-]{8}",
        r"(?:live_|duffel_(?:live|test)_)(?=[\w-]{0,60}[0-9])(?:[A-Za-z0-9]{30}|[0-9a-f]{35}|[\w=-]{40,43})(?![\w-])",
    ),
    "Azure OpenAI Key": (r"jqqj99[a-z0-9]{20}", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}"),
    "Azure DevOps Token": (r"azdo[a-z0-9]{4}", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"),
    "MaxMind Key": (r"_mmk\b", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?!\w)"),
    "New Relic License": (r"nral\b", r"[0-9a-f]{36}NRAL"),
    "Mailgun API Key": (
        r"[0-9a-f]-[0-9a-f]{8}-[0-9a-f]{8}",
        r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])",
    ),
    "fal Key": (r"-[0-9a-f]{12}:[0-9a-f]{8}", rf"{_UUID}:[0-9a-f]{{32}}(?![0-9a-f])"),
    "Terraform Token": (r"\.atlasv1\.[a-z0-9_=-]{60}", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    "Azure AD Client Secret": (r"[0-9]q~[\w~.-]{31}", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    "Twitter Token": (r"(?-i:A){21}[a-z0-9]{1,40}%", r"A{21}[A-Za-z0-9]{1,40}%[A-Za-z0-9%]{40,}"),
    "Okta Token": (r"ssws 00[\w-]{8}", r"SSWS 00[\w-]{40}(?![\w-])"),
}
ANY_SERVICE = frozenset(("Prefixed Key", "Named Key"))
"""The kinds of keys that do not tell the service."""
_LOOKS_AROUND = re.compile(r"\(\?<?[=!][^()]*\)")
_LONG_REPEAT = re.compile(r"\{([2-9][0-9]|[1-9][0-9]{2})[0-9,]*\}.*")


def _line_with(key: str) -> str:
    """Return a simple pattern of lines that may contain the key: its beginning, to its first long repetition.

    All characters that a key must have are asked for: base64 has many of a short beginning with 20 letters.
    """
    return _LONG_REPEAT.sub(r"{\1}", _LOOKS_AROUND.sub("", key))


# The pattern of the line, and of the secret.
KEYS = {**{kind: (_line_with(key), key) for kind, key in _KEYS.items()}, **_KEYS_IN_LINES}

# Secrets known by what stands before them: a pattern for the line (ignoring case), and for google-re2 one
# whose group is the secret. Such a value must not stand in a test or a manual; it must look random after a
# word that also names other things, and elsewhere have a digit and a letter.
# The name of a secret, and what joins it to its value: a sign, also after a type, an element of XML, a verb.
_NAME = (
    r"(?i:(?:token|secret|credentials?|pass(?:phrase|w(?:or)?d)?|pwd|[?&]code|sonar[._]login"
    r"|(?-i:\bSALT|_SALT|[a-z]Key)|_(?:signing|o?auth|pass|pwd?)"
    r"|(?:[_-]|(?:api|app|auth|access|private|secret|signing|encryption|license)[ .]?)key)"
    r"s?(?:[_-]?[0-9]{1,2})?(?:[_-](?:prod(?:uction)?|dev|test|staging|live|value|b(?:ase)?64|hex|raw|default))?)"
)
_QUOTED = r"\s*\\{0,3}[\"'`]?\\{0,3}[\"'`]"
_JOINED = (
    r"(?:[\"'`)\]]{0,3}\s*(?:(?::\s*[&'?\w.<>\[\]| ]{1,40}|\{\s*get;[^}]{0,20}\}\s*)??"
    rf"(?::=|=>|<-|[=:]|\|\||\?\?)|\sis\s)(?:{_QUOTED}|\s*)"
    r"|\([\"']|\s+(?:--body\s+)?[\"']|[\"']?(?:>|\s+(?:value|default|content)\s*=\s*[\"']))"
)
# Names of keys that may be a UUID: elsewhere it is an id.
_OF_A_SERVICE = (
    r"(?:snyk|codecov|heroku|postmark|consul_http|nomad|sauce)\w*(?:token|key)"
    r"|(?:api|client|private|personal|access|secret)[ _.-]?(?:key|token|secret)"
)
# The arguments of a call: in a list, ``"ApiKey"`` is a resource of a template.
_ARGUMENTS = rf"(?:[({{]\s*|[fF]ield\(? ?[\"']String[\"'],\s*)[\"'][\w.-]*?{_NAME}[\"']\s*,{_QUOTED}"
_VALUE = r"([A-Za-z0-9_+/=:.~%-]{16,})"
_SHORT = r"([^\s\"'`$<>{}(),;/][^\s\"'`$<>{}(),;]{7,})"
# With a digit, as another option may begin with -p. ``SHORTEST`` has its length.
_OF_MYSQL = r"((?:[^\s\"'`$<>{}(),;/][^\s\"'`$<>{}(),;]*)?[0-9][^\s\"'`$<>{}(),;]*)"
CONTEXTS = {
    "Named Secret": (
        (
            r"(?:token|secret|credential|pass|pwd|_pw|code|salt|signing|auth|sonar.login|key)[a-z0-9]*(?:[_-][a-z0-9]+)?"
            r"[^\w\n]+(?:[a-z._]+[^\w\n]+)*[a-z_+/-]*[0-9][\w+/=:.~%-]"
        ),
        (
            rf"(?:{_NAME}{_JOINED}|{_ARGUMENTS}|\s--?[\w-]*{_NAME}[ =])"
            r"(?i:oauth:|base64:|bearer\s+)?([A-Za-z0-9_+/][A-Za-z0-9_+/=:.~%-]{11,})(?:[\s\"'`,;&)<>}#\\]|$)"
        ),
    ),
    "Secret In An Address": (r"://[\w-]{20,}(?::[\w-]*)?@", r"://([\w-]{20,})(?::[\w-]*)?@[\w.-]"),
    "Secret Of An Option": (
        r"\s(?:login|(?:-u|--user(?:name)?)[ =]\S+)\s(?:.*\s)?-p\s",
        (
            r"(?:\slogin|\s(?:-u|--user(?:name)?)[ =]\S+)\s(?:[^;&|]*\s)?-p\s+[\"']?"
            r"([A-Za-z0-9_+/=.~%@!^*#-]{8,})"
        ),
    ),
    "Argument Of A Client": (
        r"(?:client|search|connect|login|auth|init)\(\s*[\"'](?:[\w.-]{1,40}[\"'],\s*[\"'])?[a-z0-9]{8}",
        (
            r"(?i:client|search|connect|login|auth|init)\(\s*[\"'](?:[\w.-]{1,40}[\"'],\s*[\"'])?"
            r"([A-Za-z0-9]{32,})[\"']"
        ),
    ),
    "Part Of A Private Key": (
        r"(?:\"(?:d[pq]?|p|qi?|k)\":\s*\"|<(?:d[pq]?|p|q|inverseq)>)[\w+/=-]{8}",
        r"(?:\"(?:d[pq]?|p|qi?|k)\":\s*\"|<(?:D[PQ]?|P|Q|InverseQ)>)([A-Za-z0-9_+/=-]{40,})[\"<]",
    ),
    # ``ENV`` of Docker, and ``set -x`` of fish.
    "Set Variable": (
        r"(?:env|set\s+-\w+|configure\s+set)\s+\w*(?:token|secret|passw(?:or)?d|passphrase|_key)\s",
        rf"(?:^ENV|\bset\s+-\w+|\bconfigure\s+set)\s+(?i:\w*(?:TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|_KEY))\s+[\"']?{_SHORT}",
    ),
    "Password Of A Command": (
        (
            r"curl\s|sshpass\s|-pass(?:word|phrase)[ =]|docker\s+login\s|redis-cli\s|mongo\w*\s|pgpassword="
            r"|mysql_pwd=|sshpass=|requirepass\s|masterauth\s|bindpw\s|securestring\s|psk="
        ),
        (
            r"(?:curl\s.*(?:-u|--user)[ =]?[\"']?[^\s:\"']+:|sshpass\s+-p\s*[\"']?"
            r"|(?:^|\W)--?(?:\w+-)?pass(?:word|phrase)[ =][\"']?"
            r"|(?:docker\s+login|mongo\w*)\s(?:[^;&|]*\s)?-p\s+[\"']?|redis-cli\s(?:[^;&|]*\s)?-a\s+[\"']?"
            r"|\b(?:PGPASSWORD|MYSQL_PWD|SSHPASS|psk)=[\"']?|\b(?:requirepass|masterauth|bindpw)\s+[\"']?"
            rf"|(?i:ConvertTo-SecureString)\s+(?:-String\s+)?[\"']){_SHORT}"
        ),
    ),
    "Password Of A Tool": (
        (
            r"-(?:store|key)pass[ =]|-pass(?:in|out)\s|mysqladmin |chpasswd|htpasswd |smbclient |sqlcmd "
            r"|net use |ldap(?:search|modify|add|delete|whoami) |presharedkey|unseal key|root token"
            r"|jdbc:oracle:thin|7z \w |zip -p"
        ),
        (
            r"(?:\s--?(?:store|key)pass[ =][\"']?|\s-pass(?:in|out)\s+[\"']?pass:"
            r"|mysqladmin\s.*\spassword\s+[\"']?|htpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+[\"']?"
            r"|smbclient\s.*-U\s*[\"']?[^\s%]+%|(?:sqlcmd|\bzip)\s(?:[^;&|]*\s)?-P\s*[\"']?"
            r"|ldap(?:search|modify|add|delete|whoami)\s(?:[^;&|]*\s)?-w\s+[\"']?"
            r"|\b7z\s+\w\s(?:[^;&|]*\s)?-p[\"']?|net\s+use\s.*/user:\S+\s+|(?i:presharedkey)\s*=\s*"
            rf"|(?i:unseal\skey(?:\s[0-9]+)?|root\stoken):\s+|jdbc:oracle:thin:[^/@\s:]+/){_SHORT}"
            rf"|\becho\s+[\"']?[\w.-]+:{_SHORT}[\"']?\s*\|\s*(?:sudo\s+)?chpasswd"
        ),
    ),
    "Password Of MySQL": (r"mysql\w*\s", rf"mysql\w*\s(?:[^;&|]*\s)?-p[\"']?{_OF_MYSQL}"),
    "Service Token": (
        rf"(?:{_OF_A_SERVICE}|codecov|snyk)[^\n]{{1,40}}[0-9a-f]{{8}}-[0-9a-f]{{4}}-",
        (
            rf"(?:(?i:{_OF_A_SERVICE})[\w-]*(?:{_JOINED}|[\"']\s*,{_QUOTED}|[ =])"
            rf"|codecov.*\s-t\s+|snyk\s+auth\s+)((?i:{_UUID}))"
        ),
    ),
    "Ngrok Token": (
        r"authtoken",
        r"(?i:authtoken)[\"']?[\s:=]+[\"']?([A-Za-z0-9]{20,}_[A-Za-z0-9]{15,})",
    ),
    "Password Hash": (
        r":\$\$?(?:apr1|2[abxy]|[156y])\$",
        (
            r"[\w@.-]:\$\$?(apr1\$\$?[./A-Za-z0-9]{1,8}\$\$?[./A-Za-z0-9]{22}"
            r"|[56]\$\$?(?:rounds=[0-9]+\$\$?)?[./A-Za-z0-9]{1,16}\$\$?[./A-Za-z0-9]{43,86}"
            r"|y\$\$?[./A-Za-z0-9]+\$\$?[./A-Za-z0-9]{1,86}\$\$?[./A-Za-z0-9]{43}"
            r"|2[abxy]\$\$?[0-9]{2}\$\$?[./A-Za-z0-9]{53})"
        ),
    ),
    "Setting In XML": (
        r"<add\s+key=\"[^\"]*(?:secret|password|pwd|key|token)\"",
        (
            r"(?i:<add\s+key=\"[^\"]*(?:secret|password|pwd|(?:api|access|secret)_?key|(?:api|access|auth)_?token)\""
            rf"\s+value=\"){_SHORT}\""
        ),
    ),
    "Netrc Password": (r"login\s+\S+\s+password\s", rf"login\s+\S+\s+password\s+{_VALUE}"),
    "Basic Auth Credentials": (r"://:[^\s:/@]{8}", r"[a-z]://:([^\s:/@'\"$<{]{8,})@[\w.-]"),
    "Connection String": (
        r"(?:sharedaccesskey|password|pwd)=[^;\s]{8}",
        r"(?i:(?:;\s*|\b(?:host|user|dbname|port)=[^\s,;\"']+\s)(?:SharedAccessKey|password|pwd)=)([^;\s\"'{}$<>]{8,})",
    ),
    "Azure SAS": (r"[?&]sig=[a-z0-9%+/_-]{12}", r"[?&]sig=([A-Za-z0-9%+/=_-]{40,})"),
    "Password Element": (
        r"<password>[^<\s]|password\"\s+value=\"|(?:store|key)pass=\"",
        r"(?i:<password>|password\"\s+value=\"|(?:store|key)pass=\")([^<>\"\s{}$]{8,})",
    ),
    "Encrypted Element": (
        r"<(?:password|passphrase|master|secret)>\{[a-z0-9+/=]{8}",
        r"(?i:<(?:password|passphrase|master|secret)>)\{([A-Za-z0-9+/=]{20,})\}",
    ),
    "Consul Key": (r"encrypt\"?\s*[=:]\s*\"[a-z0-9+/]{5}", r"encrypt\"?\s*[=:]\s*\"([A-Za-z0-9+/]{43}=)\""),
    "Bundler Key": (
        r"[\" ][0-9a-f]{8}:[0-9a-f]{8}",
        r"\bBUNDLE_[A-Z0-9_]+:\s*\"?([0-9a-f]{8}:[0-9a-f]{8})\b",
    ),
    "Password Of A Database": (
        r"identified\s+by\s|[?&]password=|password '",
        r"(?i:\bidentified\s+by\s+['\"]|[?&]password=|\bpassword\s+')([^\s\"'&{}$<>]{8,})",
    ),
    "PHP Constant": (
        r"define\(\s*['\"]",
        r"(?i:define\(\s*['\"]\w*(?:PASSWORD|SECRET|_KEY|_SALT|TOKEN)\w*['\"]\s*,\s*['\"])([^'\"\s]{8,})['\"]",
    ),
    "Ansible Password": (r"ansible_\w*pass", r"ansible_\w*pass(?:word)?\s*[=:]\s*[\"']?([^\s\"'{}]{8,})"),
}
# The minimum length of a password that cannot be anything else.
SHORTEST = {"Password Of MySQL": 4}
PASSWORDS = frozenset(CONTEXTS) - {
    "Named Secret",
    "Secret In An Address",
    "Secret Of An Option",
    "Argument Of A Client",
    "Part Of A Private Key",
}
# Files whose format has secrets without a word for them: the name, and what is before each. The lines of a
# diff begin with a sign.
BY_FILE = {
    **dict.fromkeys((".netrc", "_netrc"), r"\bpassword\s+(\S+)"),
    **dict.fromkeys((".pgpass", "pgpass.conf"), r"^(?:(?:[^:#\\]|\\.)*:){4}(.+)"),
    ".npmrc": r"(?:_auth|_authToken|_password)\s*=\s*[\"']?([^\s\"'$]+)",
    **dict.fromkeys((".htpasswd", "htpasswd"), r"^[^:#]+:(?:\{SHA\}|\$)?([^\s${}]+(?:\$\S+)?)"),
    **dict.fromkeys(("codecov.yml", ".codecov.yml"), rf"\btoken:\s*[\"']?({_UUID})"),
    "master.key": r"^[ +-]?([0-9a-f]{32})\s*$",
    ".git-credentials": r"://[^:]+:([^@]+)@",
    ".env": (
        r"^[ +-]?\s*(?:export\s+)?(?:\w*(?i:passphrase|credentials?|passcode|_token)|(?:[A-Z0-9_]*_)?PIN)"
        r"\s*=\s*[\"']?([^\s\"'$]+)"
    ),
    "auth.json": r"\"[\w-]+\.[\w.-]+\":\s*\"([^\s\"]{16,})\"",
    ".yarnrc.yml": r"npmAuth(?:Token|Ident):\s*[\"']?([^\s\"'$]+)",
    ".pypirc": r"^[ +-]?password\s*[=:]\s*(\S+)",
}
