package realtime

// Azure is Azure OpenAI (GA path, API key): the events of OpenAI at a host of one's own,
// https://RESOURCE.openai.azure.com/openai/v1; the model is the name of the deployment.
func Azure() Profile {
	p := OpenAI()
	p.Provider, p.BaseURL = "azure", ""
	p.KeyHeader, p.KeyPrefix = "api-key", ""
	return p
}
