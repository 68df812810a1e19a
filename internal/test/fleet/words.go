package fleet

// The vocabulary. Measurements need values with realistic lengths that are equal within a workload and differ between
// workloads. So nearly all of them combine several words.
var (
	teams = []string{
		"payments", "checkout", "search", "identity", "catalog", "logistics", "growth", "data-platform", "messaging",
		"fraud", "recommendations", "storefront", "billing", "observability", "media", "partners", "mobile-backend",
		"risk", "ml-serving", "supply", "crm", "warehouse", "pricing", "content",
	}
	// stages come after the name of a team in the name of a namespace.
	stages = []string{"", "-prod", "-staging", "-dev", "-canary", "-batch", "-tools"}

	subjects = []string{
		"order", "invoice", "session", "user-profile", "cart", "inventory", "shipment", "notification", "email",
		"product", "price", "currency", "ledger", "account", "audit", "feature-flag", "recommendation", "review",
		"image", "thumbnail", "search", "ranking", "events", "clickstream", "geo", "address", "tax", "refund",
		"subscription", "webhook", "document", "report", "loyalty", "coupon", "fraud-score", "token", "device",
		"metrics", "translation", "tenant", "quota", "export",
	}
	roles = []string{
		"api", "worker", "gateway", "service", "frontend", "backend", "processor", "consumer", "scheduler", "indexer",
		"aggregator", "proxy", "cache", "streamer", "sync", "controller", "renderer", "validator", "bff", "store",
	}
	stores = []string{"postgresql", "redis", "kafka", "elasticsearch", "zookeeper", "rabbitmq", "mongodb", "cassandra",
		"etcd", "clickhouse"}
	jobs = []string{"db-migrate", "nightly-report", "backup", "reindex", "cleanup", "sync-catalog", "settlement",
		"vacuum", "import"}
	daemons   = []string{"node-exporter", "fluent-bit", "ebs-csi-node", "node-local-dns", "otel-agent"}
	tiers     = []string{"frontend", "backend", "data", "edge", "batch"}
	managers  = []string{"Helm", "Helm", "argocd", "flux", "kustomize"}
	languages = []string{"go", "java", "python", "nodejs", "dotnet", "rust"}

	registries = []string{
		"412873950164.dkr.ecr.eu-west-1.amazonaws.com", "ghcr.io/acme-corp", "registry.acme.internal/platform",
		"acmeprod.azurecr.io", "docker.io/acmecorp", "quay.io/acme",
	}

	// envNames has a prime length, so every stride from every start visits each name once before it repeats one.
	envNames = []string{
		"LOG_LEVEL", "LOG_FORMAT", "HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "ENVIRONMENT", "REGION", "CLUSTER_NAME",
		"DATABASE_HOST", "DATABASE_PORT", "DATABASE_NAME", "DATABASE_POOL_SIZE", "REDIS_URL", "REDIS_DB",
		"KAFKA_BROKERS", "KAFKA_TOPIC", "KAFKA_CONSUMER_GROUP", "SCHEMA_REGISTRY_URL", "OTEL_SERVICE_NAME",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG", "FEATURE_FLAGS_URL", "AUTH_ISSUER_URL",
		"AUTH_AUDIENCE", "JAVA_OPTS", "GOMAXPROCS", "GOMEMLIMIT", "NODE_ENV", "PYTHONUNBUFFERED", "REQUEST_TIMEOUT",
		"SHUTDOWN_GRACE_PERIOD", "MAX_CONNECTIONS", "CACHE_TTL_SECONDS", "RATE_LIMIT_RPS", "S3_BUCKET", "S3_ENDPOINT",
		"AWS_REGION", "SENTRY_ENVIRONMENT", "SENTRY_RELEASE", "UPSTREAM_URL", "ORDERS_SERVICE_URL",
		"USERS_SERVICE_URL", "CATALOG_SERVICE_URL",
	}
	secretNames = []string{
		"DATABASE_PASSWORD", "DATABASE_USER", "REDIS_PASSWORD", "SENTRY_DSN", "STRIPE_API_KEY", "JWT_SIGNING_KEY",
		"AWS_SECRET_ACCESS_KEY", "KAFKA_SASL_PASSWORD", "SMTP_PASSWORD", "OAUTH_CLIENT_SECRET", "ENCRYPTION_KEY",
	}
	fieldEnv = [][2]string{
		{"POD_NAME", "metadata.name"}, {"POD_NAMESPACE", "metadata.namespace"}, {"POD_IP", "status.podIP"},
		{"NODE_NAME", "spec.nodeName"}, {"HOST_IP", "status.hostIP"},
	}
	levels        = []string{"info", "warn", "debug", "error"}
	regions       = []string{"eu-west-1", "eu-central-1", "us-east-1", "ap-southeast-2"}
	commands      = []string{"/app/server", "/usr/local/bin/entrypoint.sh", "/bin/service", "/opt/app/bin/start"}
	probePaths    = []string{"/healthz", "/readyz", "/livez", "/actuator/health/readiness", "/-/ready", "/health", "/ping"}
	mountPaths    = []string{"/etc/app", "/etc/config", "/app/config", "/opt/app/conf"}
	memorySizes   = []int64{64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096} // MiB
	cpuSizes      = []int64{10, 25, 50, 100, 200, 250, 500, 750, 1000, 1500, 2000}    // thousandths
	failureKinds  = []string{"Error", "OOMKilled", "Error"}
	priorityNames = []string{"business-critical", "high-priority", "batch-low"}
)
