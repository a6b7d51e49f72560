package lab

// Params are the params of every item.
const Params = `{"orderId": 4711, "customer": "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01", "express": true}`
