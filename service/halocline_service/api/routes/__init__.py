"""The routes of the API, thin: what is asked is checked, what is answered is made elsewhere."""
