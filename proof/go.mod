module github.com/typedinformer/informer/proof

go 1.26.0
