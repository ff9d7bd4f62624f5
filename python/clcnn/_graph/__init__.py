"""Parts of clcnn.graph and clcnn.value, which offer what is public of them."""
