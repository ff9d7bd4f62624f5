"""Parts of clcnn.image, which offers what is public of them."""
