package group

const Name = "constant.example.com"
