"""Parts of clcnn.plan, which offers what is public of them."""
