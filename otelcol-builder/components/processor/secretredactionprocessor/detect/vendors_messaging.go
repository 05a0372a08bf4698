package detect

// messagingTokens are tokens and hooks of chat, telephony and social networks.
const messagingTokens = `
slack_token xoxb-{b20-} xoxp-{b20-} xoxa-{b20-} xoxr-{b20-} xoxs-{b20-} xoxo-{b20-} xoxe-{b20-} xoxc-{b20-} xoxd-{p20-} xoxe.xoxp-{b20-} xoxe.xoxb-{b20-} xapp-{b20-} xwfp-{b20-}
+slack_webhook hooks.slack.com/services/{A8-}/{A8-}/{A20-} hooks.slack.com/workflows/{A8-}/{A8-}/{d10-}/{A20-} hooks.slack.com/triggers/{A8-}/{d8-}/{A20-}
+discord_webhook discord.com/api/webhooks/{d17-20}/{b60-} discordapp.com/api/webhooks/{d17-20}/{b60-}
+teams_webhook .webhook.office.com/webhookb2/{u36}@{u36}/IncomingWebhook/{A32}/{u36} outlook.office.com/webhook/{u36}@{u36}/IncomingWebhook/{A32}/{u36} outlook.office365.com/webhook/{u36}@{u36}/IncomingWebhook/{A32}/{u36}
+google_chat_webhook chat.googleapis.com/v1/spaces/{b8-}/messages?key={b20-}&token={p20-}
telegram_token {d8}:AA{b33} {d9}:AA{b33} {d10}:AA{b33} bot{d8}:AA{b33} bot{d9}:AA{b33} bot{d10}:AA{b33} {d10}:AAE{b32}
twilio_key SK{h32} AC{h32}
twitch_token oauth:{a30}
facebook_token EAACEdEose0cBA{A20-} EAA{A80-}
instagram_token IGQV{A50-} IGQW{A50-} IGAA{A50-}
twitter_bearer AAAAAAAAAAAAAAAAAAAAA{p80-120}
linkedin_secret WPL_AP1.{A16}.{s6-}
linkedin_token AQV{b100-} AQX{b100-}
tiktok_token act.{A60-} rft.{A60-}
messagebird_key live_{A25} test_{A25}
plivo_key MA{U18} SA{U18}
telnyx_key KEY01{U30-}_{A20-} KEY{U32}_{A22}
pubnub_key sub-c-{u36} pub-c-{u36} sec-c-{s40-}
fcm_key AAAA{b7}:APA91b{b120-}
`
